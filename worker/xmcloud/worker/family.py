"""Finding every process that came from a job, whatever became of the processes in between."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_FIRST_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5


def set_subreaper(on: bool) -> bool:
    """Let processes whose parent ends become children of this one; False where not possible."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)


class Adopted:
    """Tells the children of this process, cheaply enough to ask after every job."""

    def __init__(self) -> None:
        self._own = os.getpid()
        self._strangers = _pids() - {self._own}

    def refresh(self) -> None:
        """Forget numbers that are free, before a new process may get one."""
        self._strangers &= _pids()

    def children(self) -> set[int]:
        """Direct children, the ended and not yet collected ones included."""
        present = _pids()
        self._strangers &= present
        found = set()
        for pid in present - self._strangers - {self._own}:
            parent = _parent(pid)
            if parent == self._own:
                found.add(pid)
            elif parent in self._strangers:
                self._strangers.add(pid)
        return found


def _pids() -> set[int]:
    return {int(name) for name in os.listdir(_PROC) if name.isdecimal()}


def _parent(pid: int) -> int | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat[stat.rindex(b")") :].split()[2])


def carriers(marks: Collection[Mapping[str, str]]) -> list[psutil.Process]:
    """Living processes whose environment has all variables of one of the marks."""
    return [process for process in psutil.process_iter() if _carries(process, marks)]


def _carries(process: psutil.Process, marks: Collection[Mapping[str, str]]) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    return any(mark.items() <= environment.items() for mark in marks)


def descendants(pid: int) -> list[psutil.Process]:
    """The process and all that hang below it; nothing if it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in set(processes) if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)


async def gone(find: Callable[[], list[psutil.Process]], seconds: float) -> bool:
    """Wait until nothing is found alive; False when the time is over first."""
    loop, pause = asyncio.get_running_loop(), _FIRST_LOOK_SECONDS
    deadline = loop.time() + seconds
    while living(find()):
        if (left := deadline - loop.time()) <= 0:
            return False
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
    return True
