"""How much memory the processes of a job may use, all of them together."""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from xmcloud.worker.aside import aside

_EVERY_SECONDS = 1.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Row:
    """A process; `resident` are the bytes of memory that it uses, shared ones too."""

    pid: int
    parent: int
    session: int
    resident: int


Table = Mapping[int, Row]


def family(table: Table, leader: int) -> set[int]:
    """Those that come from the leader or are of its session."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for row in table.values():
        children[row.parent].append(row.pid)
    found: set[int] = set()
    new = [row.pid for row in table.values() if leader in (row.pid, row.session)]
    while new:
        pid = new.pop()
        if pid not in found:
            found.add(pid)
            new += children[pid]
    return found


def process_table() -> Table:
    """All processes of the machine."""
    if sys.platform == "linux":
        rows = (_row(name) for name in os.listdir("/proc") if name.isdecimal())
    else:
        rows = (_row_elsewhere(process) for process in psutil.process_iter())
    return {row.pid: row for row in rows if row is not None}


def _row(pid: str) -> Row | None:
    try:
        stat = Path("/proc", pid, "stat").read_bytes()
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Row(int(pid), int(fields[1]), int(fields[3]), int(fields[21]) * _PAGE_BYTES)


def _row_elsewhere(process: psutil.Process) -> Row | None:
    try:
        memory = process.memory_info().rss
        return Row(process.pid, process.ppid(), os.getsid(process.pid), memory)
    except (psutil.Error, OSError):
        return None


def without_sharing(pid: int) -> int | None:
    """Bytes of memory, what several processes share divided among them; None if unknown."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)


class MemoryUse:
    """How much families of processes use; one look at the machine serves all that ask."""

    def __init__(
        self,
        look: Callable[[], Table] = process_table,
        precise: Callable[[int], int | None] = without_sharing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._precise, self._clock = look, precise, clock
        self._looked = float("-inf")
        self._table: Table = {}
        self._lock = asyncio.Lock()

    async def of(self, leader: int, allowed: float) -> float:
        """Bytes; what is shared is counted once where that decides whether it is allowed."""
        async with self._lock:
            if self._clock() - self._looked >= _EVERY_SECONDS / 2:
                self._table = await aside(self._look)
                self._looked = self._clock()
            table = self._table
        pids = family(table, leader)
        resident = sum(table[pid].resident for pid in pids)
        if resident <= allowed:
            return resident
        return await aside(lambda: sum(self._size(table[pid]) for pid in pids))

    def _size(self, row: Row) -> int:
        precise = self._precise(row.pid)
        return row.resident if precise is None else precise


class MemoryWatch:
    """Looks every second whether the family of a process uses more than it asked for."""

    def __init__(
        self, use: MemoryUse, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._use, self._pause = use, pause

    async def exceeded(self, leader: int, resources: Mapping[str, float]) -> str:
        """Why it is to be ended, once it is; never for a job that asked for no `memory`."""
        allowed = resources.get("memory")
        if allowed is None:
            never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await never
        while not (why := excess(await self._use.of(leader, allowed), allowed)):
            await self._pause(_EVERY_SECONDS)
        return why


def excess(used: float, allowed: float) -> str:
    """What to tell a person about it; '' when it is allowed."""
    if used <= allowed:
        return ""
    return (
        f"out of memory: its processes used {_amount(used)}, and it asked for {_amount(allowed)};"
        " ask for more `memory`, or let it use less: smaller batches, fewer processes"
    )


def _amount(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
