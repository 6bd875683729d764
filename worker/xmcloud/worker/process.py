"""Processes of jobs: started with the exact argv, watched without a thread, ended with all kin."""

import asyncio
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from xmcloud.worker import family

_LEAVING_SECONDS = 0.5
_KILLED_SECONDS = 10.0

logger = logging.getLogger("xmcloud.worker")


class Launcher:
    """Starts processes and knows which children of the worker are theirs."""

    def __init__(self) -> None:
        self._adopted = family.Adopted() if family.set_subreaper(True) else None
        self._leaders: dict[int, Process] = {}

    def spawn(
        self,
        argv: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        mark: Mapping[str, str],
        log: Path,
        executable: Path | None = None,
    ) -> "Process":
        """Start the leader of a new session; all it writes is appended to `log`.

        `mark` are the variables that tell its descendants from others. Raises OSError.
        """
        if self._adopted is not None:
            self._adopted.refresh()
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            popen = subprocess.Popen(
                argv,
                executable=executable,
                cwd=directory,
                env={**environment, **mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(output)
        process = Process(popen, mark, self)
        self._leaders[popen.pid] = process
        return process

    def collect(self) -> None:
        """Let ended orphans of jobs go, which have no other parent than this process."""
        self.orphans()

    def orphans(self) -> list[psutil.Process]:
        """Living children of the worker that are not the leader of a job."""
        if self._adopted is None:
            return []
        found = []
        for pid in self._adopted.children() - self._leaders.keys():
            with suppress(ChildProcessError, psutil.NoSuchProcess):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    found.append(psutil.Process(pid))
        return found

    def kin(self, process: "Process") -> list[psutil.Process]:
        """Every living process that came from this one."""
        found = [] if process.ended else family.descendants(process.pid)
        orphans = self.orphans()
        alone = self._leaders.keys() <= {process.pid}
        if self._adopted is None or not process.ended or orphans:
            found += family.carriers([process.mark])
        if alone:
            found += [kin for orphan in orphans for kin in family.descendants(orphan.pid)]
        return family.living(found)

    def forget(self, pid: int) -> None:
        self._leaders.pop(pid, None)


class Process:
    """The first process of a job, and through it the whole family."""

    note = ""

    def __init__(
        self, popen: "subprocess.Popen[bytes]", mark: Mapping[str, str], launcher: Launcher
    ) -> None:
        self.pid = popen.pid
        self.mark = mark
        self._popen = popen
        self._launcher = launcher
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._watch()

    @property
    def ended(self) -> bool:
        return self._popen.returncode is not None

    async def wait(self) -> int:
        """The exit code of the first process, or minus the number of the signal that ended it."""
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
        self._launcher.forget(self.pid)

    async def _kill(self) -> None:
        deadline = asyncio.get_running_loop().time() + _KILLED_SECONDS
        # Again, as long as a process that was just starting another one comes to light.
        while left := self._kin():
            if asyncio.get_running_loop().time() > deadline:
                pids = [process.pid for process in left]
                logger.error("processes %s cannot be killed: see what they wait for", pids)
                return
            self._signal(signal.SIGKILL)
            await family.gone(self._kin, 0.2)

    def _signal(self, number: signal.Signals) -> None:
        kin = self._kin()
        if not self.ended:
            # Its number cannot have been given to another group before it is collected.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            kin = [process for process in kin if _group(process.pid) != self.pid]
        family.send(kin, number)

    def _kin(self) -> list[psutil.Process]:
        return self._launcher.kin(self)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            arguments = (loop,)
            threading.Thread(target=self._wait_in_thread, args=arguments, daemon=True).start()
        else:
            loop.add_reader(descriptor, self._on_exit, descriptor)

    def _on_exit(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._set(self._popen.wait())

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._popen.wait()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._set, code)

    def _set(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
