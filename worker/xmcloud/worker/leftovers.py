"""What an earlier run of this worker left behind when it ended without a word."""

import fcntl
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xmcloud.core.errors import XmcloudError
from xmcloud.worker import family
from xmcloud.worker.containers import RECORD, Containers
from xmcloud.worker.identity import mark
from xmcloud.worker.setup import SetupFailed

# The start time of a process is told relative to the boot, which the kernel may correct a little.
_CLOCK_CORRECTION_SECONDS = 1.5
_KILLED_SECONDS = 10.0

logger = logging.getLogger("xmcloud.worker")


class NameTaken(XmcloudError):
    """A worker of that name runs on this machine already."""

    slug, title = "worker-name-taken", "This worker runs already"

    def __init__(self, name: str, pid: str) -> None:
        super().__init__(
            f"A worker named {name!r} runs on this machine already (process {pid}).",
            "Stop it, or start another one with --name.",
        )


class ProcessRecord(BaseModel):
    """The first process of an attempt."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(gt=1)
    created: float


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds the name of the worker for this process. Raises NameTaken."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NameTaken(folder.name, os.read(descriptor, 20).decode().strip()) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


async def remove_leftovers(attempts: Path) -> int:
    """Kill what still runs of earlier attempts, so that nothing runs twice; how many those were."""
    folders = _folders(attempts)
    if not folders:
        return 0
    marks = [mark(*_attempt(folder)) for folder in folders]

    def left() -> list[psutil.Process]:
        found = [kin for folder in folders for kin in _recorded(folder / "process.json")]
        return family.living([*found, *family.carriers(marks)])

    count = len(left())
    while processes := left():
        family.send(processes, signal.SIGKILL)
        await family.gone(left, _KILLED_SECONDS)
    for folder in folders:
        if not (folder / RECORD).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return count


async def remove_containers(attempts: Path, containers: Containers) -> int:
    """Those of earlier attempts; before the processes, whose folders tell of both.

    What the engine does not remove now is tried again by the next start.
    """
    folders = [folder for folder in _folders(attempts) if (folder / RECORD).exists()]
    if not folders:
        return 0
    try:
        count = await containers.remove([_attempt(folder) for folder in folders])
    except SetupFailed as error:
        logger.warning("containers of an earlier run may be left: %s", error)
        return 0
    for folder in folders:
        (folder / RECORD).unlink()
    return count


def _attempt(folder: Path) -> tuple[str, int]:
    job, _, fence = folder.name.partition("-")
    return job, int(fence)


def _folders(attempts: Path) -> list[Path]:
    return list(attempts.glob("*-*")) if attempts.is_dir() else []


def _recorded(path: Path) -> list[psutil.Process]:
    try:
        record = ProcessRecord.model_validate_json(path.read_bytes())
        created = psutil.Process(record.pid).create_time()
    except (FileNotFoundError, ValidationError, psutil.NoSuchProcess):
        return []
    if abs(created - record.created) > _CLOCK_CORRECTION_SECONDS:
        return []
    return family.descendants(record.pid)
