"""What an earlier run of this worker left behind when it ended without a word."""

import asyncio
import fcntl
import logging
import math
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from xmcloud.core.errors import XmcloudError
from xmcloud.worker import family
from xmcloud.worker.containers import RECORD, Containers
from xmcloud.worker.identity import mark
from xmcloud.worker.records import EXIT, PROCESS, left_of
from xmcloud.worker.setup import SetupFailed

CHECKPOINT_DAYS = 30

ENDING = "ending.json"
"""What its news wrote when an attempt was over."""

_KILLED_SECONDS = 10.0

logger = logging.getLogger("xmcloud.worker")


class NameTaken(XmcloudError):
    """A worker of that name runs on this machine already."""

    slug, title = "worker-name-taken", "This worker runs already"
    status: ClassVar[int] = 409

    def __init__(self, name: str, pid: str) -> None:
        super().__init__(
            f"A worker named {name!r} runs on this machine already (process {pid}).",
            "Stop it, or start another one with --name.",
        )


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


def recoverable(attempts: Path) -> list[Path]:
    """Folders of attempts that an earlier run of the worker began and this one can go on with."""
    return [folder for folder in _folders(attempts) if _is_recoverable(folder)]


def beyond_recovery(attempts: Path) -> list[Path]:
    """Folders of the others: their setup was not over."""
    return [folder for folder in _folders(attempts) if not _is_recoverable(folder)]


async def remove_leftovers(folders: Collection[Path]) -> int:
    """Kill what still runs of those attempts, so that nothing runs twice; how many those were."""
    if not folders:
        return 0
    marks = [mark(*attempt_of(folder)) for folder in folders]
    count = len(left_of(folders, marks))
    for process in await family.kill(lambda: left_of(folders, marks), _KILLED_SECONDS):
        logger.error("process %d cannot be killed: see what it waits for", process.pid)
    for folder in folders:
        if not (folder / RECORD).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return count


async def remove_containers(folders: Collection[Path], containers: Containers) -> int:
    """Those of earlier attempts; before the processes, whose folders tell of both.

    What the engine does not remove now is tried again by the next start.
    """
    folders = [folder for folder in folders if (folder / RECORD).exists()]
    if not folders:
        return 0
    try:
        count = await containers.remove([attempt_of(folder) for folder in folders])
    except SetupFailed as error:
        logger.warning("containers of an earlier run may be left: %s", error)
        return 0
    for folder in folders:
        (folder / RECORD).unlink()
    return count


async def remove_old_checkpoints(checkpoints: Path, containers: Containers, now: float) -> None:
    """Those of jobs that have not run for long. `now` in seconds since 1970."""
    for folder in await asyncio.to_thread(_old, checkpoints, now - CHECKPOINT_DAYS * 24 * 3600):
        logger.info("removing the checkpoint of job %s, which is old", folder.name)
        await containers.delete(folder)


def _old(checkpoints: Path, since: float) -> list[Path]:
    there = list(checkpoints.iterdir()) if checkpoints.is_dir() else []
    return [folder for folder in there if _last_change(folder) < since]


def _last_change(folder: Path) -> float:
    """Of anything in it."""
    times = [_changed(folder)]
    for place, folders, files in os.walk(folder):
        times += [_changed(Path(place, name)) for name in (*folders, *files)]
    return max(times)


def _changed(path: Path) -> float:
    """What vanishes meanwhile is used by another worker, or by a job."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return math.inf


def _is_recoverable(folder: Path) -> bool:
    """One whose process has ended may be known to the keeper alone, while the disk is full."""
    return any((folder / name).exists() for name in (PROCESS, EXIT, ENDING, RECORD))


def attempt_of(folder: Path) -> tuple[str, int]:
    """The job and the fence that a folder is named by."""
    job, _, fence = folder.name.partition("-")
    return job, int(fence)


def _folders(attempts: Path) -> list[Path]:
    return list(attempts.glob("*-*")) if attempts.is_dir() else []
