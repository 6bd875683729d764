"""Keeps what jobs share below a limit: the least recently used goes first, never what is in use.

Environments and repositories are in use while somebody holds their lock; an environment also
while a process of this machine has it in its variables, as jobs do whose worker was restarted.
Blobs are copied or started at once. Nothing goes that was used in the last ten minutes.
"""

import asyncio
import fcntl
import json
import os
import re
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from xmcloud.core.names import random_id

LIMIT_BYTES = 50 * 10**9
_RECENT_SECONDS = 600.0
_KEY = re.compile(r"[0-9a-f]{32}")


class Lease:
    """Keeps a thing from being evicted until it is released, or nobody refers to the lease."""

    def __init__(self, file: Path) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # An evictor holds it for the time of a rename.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        self._end = weakref.finalize(self, _end, descriptor)

    def release(self) -> None:
        self._end()


def _end(descriptor: int) -> None:
    os.utime(descriptor)
    os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Takes the lock of a file for itself alone, unless others have it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    """What may go. `lock` is held by those who use it, and touched."""

    path: Path
    bytes: int
    used: float
    lock: Path | None


class Room:
    """The room that a cache folder may take."""

    def __init__(
        self, cache: Path, limit_bytes: int = LIMIT_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._cache = cache
        self._limit = limit_bytes
        self._clock = clock

    def used_bytes(self) -> int:
        """What all of it takes that may go."""
        return sum(entry.bytes for entry in self._entries())

    async def trim(self, to_free: int = 0) -> int:
        """Gets below the limit, and frees so many bytes if it can. Returns how many went."""
        return await asyncio.to_thread(self._trim, to_free)

    def _trim(self, to_free: int) -> int:
        descriptor = os.open(
            self._cache / "trim.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            return self._evict(to_free) if try_lock(descriptor) else 0
        finally:
            os.close(descriptor)

    def _evict(self, to_free: int) -> int:
        self._clear()
        entries = self._entries()
        surplus = max(to_free, sum(entry.bytes for entry in entries) - self._limit)
        if surplus <= 0:
            return 0
        gone, running = 0, _named_by_processes(self._cache / "environments")
        for entry in sorted(entries, key=lambda entry: entry.used):
            if gone >= surplus or self._clock() - entry.used < _RECENT_SECONDS:
                break
            if entry.path.name not in running and _remove(entry, self._trash()):
                gone += entry.bytes
        self._clear()
        return gone

    def _entries(self) -> list[_Entry]:
        return [*self._environments(), *self._repositories(), *self._blobs()]

    def _trash(self) -> Path:
        return self._cache / "trash" / random_id()

    def _clear(self) -> None:
        """What a process left that was killed here, and what was thrown away."""
        shutil.rmtree(self._cache / "trash", ignore_errors=True)
        for path in (self._cache / "environments").glob("reading-*"):
            with suppress(FileNotFoundError):
                if self._clock() - path.stat().st_mtime > _RECENT_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)

    def _environments(self) -> Iterator[_Entry]:
        for path in (self._cache / "environments").glob("*"):
            if _KEY.fullmatch(path.name):
                lock = path.with_suffix(".used")
                yield _Entry(path, _remembered(path), _modified(lock), lock)

    def _repositories(self) -> Iterator[_Entry]:
        for path in (self._cache / "git").glob("*.git"):
            lock = path.with_suffix(".lock")
            yield _Entry(path, disk_usage(path / "objects" / "pack"), _modified(lock), lock)

    def _blobs(self) -> Iterator[_Entry]:
        for path in (self._cache / "blobs").glob("*"):
            if path.suffix != ".lock":
                with suppress(FileNotFoundError):
                    facts = path.stat()
                    yield _Entry(path, facts.st_size, facts.st_mtime, None)


def disk_usage(folder: Path) -> int:
    """The bytes that its files take, those of hard links too."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
    return total


def _remembered(environment: Path) -> int:
    try:
        return int(json.loads((environment / "environment.json").read_bytes())["bytes"])
    except FileNotFoundError:
        return disk_usage(environment)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _named_by_processes(folder: Path) -> set[str]:
    """The environments below a folder that running processes know by their variables."""
    pattern = re.compile(re.escape(str(folder)) + r"/([0-9a-f]{32})")
    found: set[str] = set()
    for process in psutil.process_iter(["environ"]):
        variables = process.info["environ"] or {}
        found.update(*(pattern.findall(value) for value in variables.values()))
    return found


def _remove(entry: _Entry, trash: Path) -> bool:
    """Out of the way at once, unless it is in use or was meanwhile."""
    if entry.lock is None:
        entry.path.unlink(missing_ok=True)
        return True
    descriptor = os.open(entry.lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(descriptor) or os.fstat(descriptor).st_mtime != entry.used:
            return False
        trash.parent.mkdir(exist_ok=True)
        entry.path.rename(trash)
    except FileNotFoundError:
        return False
    finally:
        os.close(descriptor)
    return True
