"""Whether the disks that the worker writes to have room."""

import errno
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_BELIEVED_FULL_SECONDS = 60.0
_FULL = {errno.ENOSPC, errno.EDQUOT}


class DiskFull(Exception):
    """No room is left; the message names the place."""


class Disk:
    """The room in some folders."""

    def __init__(
        self,
        folders: Sequence[Path],
        floor_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._floor = floor_bytes
        self._monotonic = monotonic
        self._full_until = -math.inf

    def ran_full(self) -> None:
        """A job found no room, although the floor was kept: let others have it for a while."""
        self._full_until = self._monotonic() + _BELIEVED_FULL_SECONDS

    def shortage(self) -> str:
        """Why no job should be taken; empty when there is room."""
        for folder in self._folders:
            facts = os.statvfs(folder)
            free = facts.f_bavail * facts.f_frsize
            if free < self._floor:
                needed = f"{self._floor / 2**20:,.0f} MiB are needed"
                return f"{free / 2**20:,.0f} MiB are free for {folder}, {needed}"
        if self._monotonic() < self._full_until:
            return "a job found no room on the disk"
        return ""


@contextmanager
def noticing_full_disk() -> Iterator[None]:
    """Turns the system's word for a full disk into `DiskFull`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f": {error.filename}" if error.filename else ""
        raise DiskFull(f"no space is left on the disk{where}") from error
