"""Finding every process that came from a job, whatever became of the processes in between."""

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from xmcloud.worker.keeper import set_subreaper as set_subreaper

_PROC = Path("/proc")
# The start time of a process is told relative to the boot, which the kernel may correct a little.
_CLOCK_CORRECTION_SECONDS = 1.5
_FIRST_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5
_KILLED_LOOK_SECONDS = 0.2


class Children:
    """Tells the children of a process, cheaply enough to ask after every job."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        parents = {pid: _parent(pid) for pid in _pids()}
        self._strangers = {pid for pid in parents if parent not in _line(pid, parents)}

    def refresh(self) -> None:
        """Forget numbers that are free, before a new process may get one."""
        self._strangers &= _pids()

    def now(self) -> set[int]:
        """Direct children, the ended and not yet collected ones included."""
        present = _pids()
        self._strangers &= present
        found = set()
        for pid in present - self._strangers - {self._parent}:
            parent = _parent(pid)
            if parent == self._parent:
                found.add(pid)
            elif parent in self._strangers:
                self._strangers.add(pid)
        return found


def _line(pid: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """The process, its parent and so on."""
    while pid:
        yield pid
        pid = parents.get(pid)


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
    return any(mark and mark.items() <= environment.items() for mark in marks)


def found(pid: int) -> list[psutil.Process]:
    """The process of that number; nothing if there is none."""
    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []


def descendants(pid: int) -> list[psutil.Process]:
    """The process and all that hang below it; nothing if it is gone."""
    try:
        return [kin for process in found(pid) for kin in (process, *process.children(True))]
    except psutil.NoSuchProcess:
        return []


def descendants_since(pid: int, created: float) -> list[psutil.Process]:
    """`descendants`, if the process of that number is the one that was started at that time."""
    try:
        since = [process.create_time() for process in found(pid)]
    except psutil.NoSuchProcess:
        return []
    same = any(abs(each - created) <= _CLOCK_CORRECTION_SECONDS for each in since)
    return descendants(pid) if same else []


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


async def kill(find: Callable[[], list[psutil.Process]], seconds: float) -> list[psutil.Process]:
    """SIGKILL to what is found, as long as something comes to light; what cannot be killed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while left := living(find()):
        if loop.time() > deadline:
            return left
        send(left, signal.SIGKILL)
        await gone(find, _KILLED_LOOK_SECONDS)
    return []


def collect(ended: Iterable[int]) -> None:
    """Let those go that are children of this process."""
    for pid in ended:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def session(pid: int) -> int | None:
    """None if it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
