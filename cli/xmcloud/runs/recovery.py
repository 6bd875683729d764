"""What runs of this machine left behind whose reporter died with them.

A reporter holds a lock on its record while it lives. The next one that starts here takes what the
dead have left: their jobs are over, so it is stored, and the notes of their experiments name it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from xmcloud.core.errors import NotFound
from xmcloud.core.outputs import OWN, parsed
from xmcloud.runs.recorded import add_notes
from xmcloud.runs.session import RunClient
from xmcloud.runs.spool import PREFIX, remove
from xmcloud.runs.storing import stored
from xmcloud.xm_cloud.archives.uploads import upload

_RECORD = "recorded.json"
_CLOCK_SECONDS = 2.0
"""By which the start of a process may seem to change when the clock is set."""


@dataclass(frozen=True, slots=True)
class Record:
    """Whose outputs these are; `began` is the start of the process `pid`, the script's."""

    url: str
    experiment: str
    pid: int
    began: float

    @property
    def runs(self) -> bool:
        try:
            began = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        return abs(began - self.began) < _CLOCK_SECONDS


def recorded(spool: Path, url: str, experiment: str, pid: int) -> IO[str]:
    """Whoever finds the spool knows whose it is, and while this is open, that it is cared for.

    Raises OSError.
    """
    try:
        began = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        began = 0.0
    spool.mkdir(mode=0o700, exist_ok=True)
    (spool / OWN).mkdir(exist_ok=True)
    file = (spool / OWN / _RECORD).open("w", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    json.dump(asdict(Record(url, experiment, pid, began)), file)
    file.flush()
    return file


def recover(client: RunClient, beside: Path) -> list[str]:
    """Takes what the dead have left beside that spool; lines for people. Raises as `Client`."""
    said = []
    for spool in sorted(beside.parent.glob(f"{PREFIX}*")):
        with _nobody_has(spool) as record:
            if record is not None and record.url == client.url and not record.runs:
                said.append(_recovered(client, spool, record.experiment))
                remove(str(spool))
    return said


def _recovered(client: RunClient, spool: Path, experiment: str) -> str:
    found, _ = stored(client, spool)
    digest = upload(client, "The results", json.dumps(found).encode())
    what = f"what was left behind when its reporter died is stored: blob {digest}"
    try:
        add_notes(client, experiment, [what])
    except NotFound:
        return f"of experiment {experiment}, which is gone, {what}"
    return f"of experiment {experiment}, {what}"


@contextmanager
def _nobody_has(spool: Path) -> Iterator[Record | None]:
    """The record of the spool, locked; none if it is not ours, or somebody takes care of it."""
    try:
        file = (spool / OWN / _RECORD).open("rb")
    except OSError:
        yield None
        return
    with file:
        yield _locked(file)


def _locked(file: IO[bytes]) -> Record | None:
    if os.fstat(file.fileno()).st_uid != os.getuid():
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Record(**parsed(file.read()))
    except (BlockingIOError, ValueError, TypeError):
        return None
