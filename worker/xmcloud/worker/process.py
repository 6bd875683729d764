"""Processes of jobs: started with the exact argv, children of the keeper, ended with all kin."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from xmcloud.worker import family
from xmcloud.worker.keeper_connection import Connection
from xmcloud.worker.records import exit_of, left_of
from xmcloud.worker.running import Vanished

_LEAVING_SECONDS = 0.5
_KILLED_SECONDS = 10.0
_KILLED_LOOK_SECONDS = 0.2

logger = logging.getLogger("xmcloud.worker")


class Launcher:
    """Has the keeper start processes, and knows which of its children are theirs."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the worker's own, where its keeper is found again."""
        self._folder = folder
        self._connecting = asyncio.Lock()
        self._keeper: Connection | None = None
        self._children: family.Children | None = None
        self._strangers: set[int] | None = None
        self._starting: list[Mapping[str, str]] = []
        self._early: dict[int, tuple[int, bool]] = {}
        self._running: dict[int, Process] = {}
        self._leaders: set[Process] = set()
        self._earlier: dict[str, Process] = {}
        self._mourning: asyncio.Task[None] | None = None

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        mark: Mapping[str, str],
        log: Path,
        executable: Path | None = None,
        exit_file: Path | None = None,
        cpus: Sequence[int] = (),
    ) -> "Process":
        """Start the leader of a new session; all it writes is appended to `log`.

        `mark` are the variables that tell its descendants from others. With `exit_file`, which is
        written when it ends, it can be adopted by a later run of the worker; what identifies it is
        in `process.json` beside. `cpus` are the cores it may use; all, if there are none.
        Raises OSError, and Vanished when nobody could tell whether it ran, and it was ended.
        """
        request = {
            "argv": list(argv),
            "directory": _absolute(directory),
            "environment": {**environment, **mark},
            "mark": dict(mark),
            "log": _absolute(log),
            "executable": None if executable is None else str(executable),
            "exit_file": None if exit_file is None else _absolute(exit_file),
            "cpus": list(cpus),
        }
        spawning = asyncio.ensure_future(self._spawn(request, mark))
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            with suppress(OSError, ValueError, Vanished):
                process = await spawning
                await process.end(0)
                await process.bury(0)
            raise

    async def adopt(self, folder: Path, mark: Mapping[str, str]) -> "Process | None":
        """The process of an attempt that an earlier run of the worker began.

        One that ended meanwhile too; None if nobody can tell, after all that is left of it was
        ended. `folder` is the attempt's.
        """
        await self._connect(start=False)
        process = self._earlier.pop(folder.name, None) or self._ended_earlier(folder, mark)
        if process is None:
            await family.kill(lambda: left_of([folder], [mark]), _KILLED_SECONDS)
        else:
            self._leaders.add(process)
        return process

    async def close(self) -> None:
        """Leave the keeper, which ends with the last job. What belongs to no job is ended."""
        if self._mourning is not None:
            await self._mourning
        if not self._running:
            await family.kill(self._families_of_orphans, _KILLED_SECONDS)
        connection, self._keeper = self._keeper, None
        if connection is not None:
            connection.leave()
            await connection.ended()

    def kin(self, process: "Process") -> list[psutil.Process]:
        """Every living process that came from this one."""
        if process.clean:
            return []
        watched = self._keeper is not None and self._keeper.subreaper and not process.astray
        orphans = self._orphans()
        found = [] if process.ended else self._family(process)
        if orphans or not process.ended or not watched:
            found += family.carriers([process.mark])
        if self._is_alone(process):
            found += self._families_of_orphans()
        return family.living(found)

    def signal(self, process: "Process", number: signal.Signals) -> None:
        """To all its kin, and to what they start meanwhile in the group of the first.

        That one goes first: a shell whose child was killed would go on with its next line.
        """
        kin = self.kin(process)
        if self._keeper is not None and not process.ended:
            self._keeper.signal(process.pid, number)
            if number is not signal.SIGKILL:  # which may come twice
                kin = [each for each in kin if _group(each.pid) != process.pid]
        family.send(sorted(kin, key=lambda each: each.pid != process.pid), number)

    def forget(self, process: "Process") -> None:
        self._leaders.discard(process)

    async def _spawn(self, request: Mapping[str, Any], mark: Mapping[str, str]) -> "Process":
        connection = await self._connect(start=True)
        assert connection is not None
        if self._children is not None:
            self._children.refresh()
        self._starting.append(mark)
        try:
            pid, created = await connection.spawn(request)
            process = self._took(pid, created, mark)
        except Vanished:
            if self._mourning is not None:
                await self._mourning
            raise
        finally:
            self._starting.remove(mark)
        self._leaders.add(process)
        return process

    def _took(self, pid: int, created: float, mark: Mapping[str, str]) -> "Process":
        process = Process(pid, created, mark, self)
        if (end := self._early.pop(pid, None)) is not None:
            process.exited(*end)
        else:
            self._running[pid] = process
        return process

    async def _connect(self, *, start: bool) -> Connection | None:
        async with self._connecting:
            if self._mourning is not None:
                await asyncio.shield(self._mourning)
            if self._keeper is None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if family.set_subreaper(True):
                    self._strangers = family.Children(os.getpid()).now()
                found = await Connection.to_running(self._folder, self._on_exit, self._on_lost)
                if found is None and start:
                    found = await Connection.to_new(self._folder, self._on_exit, self._on_lost)
                if found is not None:
                    self._keeper = found
                    self._learn(found.jobs)
                    if found.lost:
                        self._on_lost(found)
                return found
            return self._keeper

    def _learn(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """What runs since an earlier run of the worker."""
        for job in jobs:
            if "code" in job:
                self._early[job["pid"]] = job["code"], True
            process = self._took(job["pid"], job["created"], job["mark"])
            if job["exit_file"] is not None:
                self._earlier[Path(job["exit_file"]).parent.name] = process

    def _ended_earlier(self, folder: Path, mark: Mapping[str, str]) -> "Process | None":
        record = exit_of(folder)
        if record is None:
            return None
        process = Process(record.pid, record.at, mark, self)
        process.exited(record.code, left=True)
        return process

    def _on_exit(self, pid: int, code: int, left: bool) -> None:
        process = self._running.pop(pid, None)
        if process is not None:
            process.exited(code, left)
        else:
            self._early[pid] = code, left

    def _on_lost(self, connection: Connection) -> None:
        if connection is self._keeper:
            self._keeper = self._children = None
            self._mourning = asyncio.create_task(self._mourn(connection, [*self._starting]))

    async def _mourn(self, connection: Connection, starting: Iterable[Mapping[str, str]]) -> None:
        """Nobody will hear of the end of what runs, or was about to: end it now."""
        lost = list(self._running.values())
        self._running.clear()
        if await connection.ended():
            logger.error("the keeper of all processes was killed: ending %d jobs", len(lost))
            marks = [*starting, *(process.mark for process in lost)]
            pids = {process.pid for process in lost}

            def left() -> list[psutil.Process]:
                found = [kin for process in lost for kin in self._family(process)]
                found += [*family.carriers(marks), *self._families_of_orphans()]
                pids.update(process.pid for process in found)
                return found

            await family.kill(left, _KILLED_SECONDS)
            family.collect(pids)
        for process in lost:
            process.vanish()

    def _family(self, process: "Process") -> list[psutil.Process]:
        if self._keeper is not None:
            return family.descendants(process.pid)
        return family.descendants_since(process.pid, process.created)

    def _is_alone(self, process: "Process") -> bool:
        """Whether all orphans are its own."""
        others = {*self._leaders, *self._running.values()} - {process}
        return not others and not self._starting

    def _families_of_orphans(self) -> list[psutil.Process]:
        return [kin for pid in self._orphans() for kin in family.descendants(pid)]

    def _orphans(self) -> set[int]:
        """What jobs left behind, and maybe a leader that is just being started."""
        if self._keeper is None:
            return self._strays()
        if not self._keeper.subreaper:
            return set()
        if self._children is None:
            self._children = family.Children(self._keeper.pid)
        return self._children.now() - self._running.keys()

    def _strays(self) -> set[int]:
        """Orphans that came to the worker when its keeper was killed."""
        if self._mourning is None or self._strangers is None:
            return set()
        children = family.Children(os.getpid()).now() - self._strangers
        return {pid for pid in children if family.session(pid) not in (None, os.getsid(0))}


class Process:
    """The first process of a job, and through it the whole family."""

    note = ""
    out_of_memory = False

    def __init__(
        self, pid: int, created: float, mark: Mapping[str, str], launcher: Launcher
    ) -> None:
        self.pid = pid
        self.created = created
        self.mark = mark
        self.clean = False
        """It ended, and nothing that it started was left."""
        self.astray = False
        """Orphans of it may be nobody's children."""
        self._launcher = launcher
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def ended(self) -> bool:
        return self._code.done()

    async def wait(self) -> int:
        """The exit code of the first process, or minus the number of the signal that ended it.

        Raises `Vanished`, when nothing of it runs any more.
        """
        return await asyncio.shield(self._code)

    async def end(self, grace: float) -> None:
        """SIGTERM to the whole family, SIGKILL to what is left after `grace` seconds."""
        if grace > 0:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + grace
            self._signal(signal.SIGTERM)
            await asyncio.wait({self._code}, timeout=grace)
            await family.gone(self._kin, deadline - loop.time())
        await self._kill()

    async def bury(self, grace: float) -> None:
        """After the first process ended: what it left running gets a moment, then is ended."""
        if self._kin() and not await family.gone(self._kin, _LEAVING_SECONDS):
            await self.end(grace)
        self._launcher.forget(self)

    def exited(self, code: int, left: bool) -> None:
        """`left` tells whether it may have left anything running."""
        self.clean = not left
        self._code.set_result(code)

    def vanish(self) -> None:
        self.astray = True
        self._launcher.forget(self)
        self._code.set_exception(Vanished("the process that looked after its own was killed"))
        self._code.exception()  # nobody may be waiting

    async def _kill(self) -> None:
        deadline = asyncio.get_running_loop().time() + _KILLED_SECONDS
        # Again, as long as a process that was just starting another one comes to light.
        while left := self._kin():
            if asyncio.get_running_loop().time() > deadline:
                pids = [process.pid for process in left]
                logger.error("processes %s cannot be killed: see what they wait for", pids)
                return
            self._signal(signal.SIGKILL)
            await family.gone(self._kin, _KILLED_LOOK_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        self._launcher.signal(self, number)

    def _kin(self) -> list[psutil.Process]:
        return self._launcher.kin(self)


def _absolute(path: Path) -> str:
    """The keeper is in another folder."""
    return str(path.absolute())


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
