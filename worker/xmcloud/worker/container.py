"""One container of a job, from its start, or from where an earlier worker left it, to its end."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING

from docker.errors import APIError, DockerException, NotFound

from xmcloud.worker.aside import aside
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_files import Janitor
from xmcloud.worker.container_output import reading
from xmcloud.worker.running import Vanished

if TYPE_CHECKING:
    from docker.models.containers import Container as EngineContainer

_KILLED_SECONDS = 10.0
_ENGINE_AWAY_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_KILLED = 128 + signal.SIGKILL

logger = logging.getLogger("xmcloud.worker")


@dataclass(frozen=True, slots=True)
class _End:
    code: int
    note: str = ""
    out_of_memory: bool = False


class Container:
    """Followed by one thread, which writes its output to the log of the attempt."""

    def __init__(
        self,
        container: "EngineContainer",
        folder: AttemptFolder,
        offset: int,
        janitor: Janitor,
        *,
        tells_out_of_memory: bool = True,
    ) -> None:
        """Its output begins at `offset` of the log, which may have some of it already."""
        self.note = ""
        self.out_of_memory = False
        self._container = container
        self._folder, self._offset = folder, offset
        self._janitor = janitor
        self._tells_out_of_memory = tells_out_of_memory
        self._was_killed = False
        self._away_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._follow, daemon=True).start()

    async def wait(self) -> int:
        """The exit code, or minus SIGKILL when its memory ran out. Raises `Vanished`."""
        return await asyncio.shield(self._exit)

    async def end(self, grace: float) -> None:
        """The image's stop signal, SIGKILL after `grace` seconds."""
        if grace > 0:
            await self._send(self._container.attrs["Config"].get("StopSignal") or "SIGTERM")
            await asyncio.wait({self._exit}, timeout=grace)
        if not self._exit.done():
            self._was_killed = True
            await self._send("SIGKILL")
            await asyncio.wait({self._exit}, timeout=_KILLED_SECONDS)

    async def bury(self, grace: float) -> None:
        """Remove it; what it wrote for the attempt belongs to the worker then."""
        remove = partial(self._container.remove, v=True, force=True)
        try:
            with suppress(NotFound):
                await aside(remove)
        except (DockerException, OSError) as error:
            logger.warning("container %s was not removed: %s", self._container.name, error)
            return
        await aside(partial(self._janitor.take_over, self._folder.shared))

    async def _send(self, name: str) -> None:
        send = partial(self._container.kill, signal=name)
        try:
            await aside(send)
        except (DockerException, OSError) as error:
            if not (isinstance(error, APIError) and error.status_code in (404, 409)):
                logger.warning("container %s got no %s: %s", self._container.name, name, error)

    def _follow(self) -> None:
        try:
            end = self._until_its_end()
        except Vanished as error:
            tell = partial(self._set_gone, error)
        else:
            tell = partial(self._set, end)
        with suppress(RuntimeError):  # the worker may be gone
            self._loop.call_soon_threadsafe(tell)

    def _until_its_end(self) -> _End:
        """Through failures of the engine, as long as it comes back. Raises `Vanished`."""
        while True:
            try:
                self._copy(follow=True)
                code = int(self._container.wait()["StatusCode"])
                # Engines that follow may leave out the last words.
                lost = self._copy(follow=False)
                self._container.reload()
                return self._verdict(code, lost)
            except NotFound:
                return _End(_KILLED, "somebody removed the container")
            except (DockerException, OSError) as error:
                now = time.monotonic()
                self._away_since = self._away_since or now
                if now > self._away_since + _ENGINE_AWAY_SECONDS:
                    raise Vanished(f"the container engine does not answer: {error}") from error
                time.sleep(_PAUSE_SECONDS)

    def _copy(self, *, follow: bool) -> str:
        """What is not in the log yet; says what could not be written."""
        with (
            self._folder.log.open("ab", buffering=0) as log,
            reading(self._container, follow=follow) as output,
        ):
            self._away_since = None
            return _append(output, max(0, log.tell() - self._offset), log)

    def _verdict(self, code: int, lost: str) -> _End:
        state = self._container.attrs["State"]
        memory = self._container.attrs["HostConfig"].get("Memory")
        told = bool(state.get("OOMKilled"))
        silent = not self._tells_out_of_memory and memory and not self._was_killed
        if code == 0 or not (told or (silent and code == _KILLED)):
            notes = (str(state.get("Error") or ""), lost)
            return _End(code, "; ".join(filter(None, notes)))
        limit = f" of {memory / 2**20:,.0f} MiB" if memory else ""
        sure = "" if told else ", probably"
        why = f"out of memory{sure}: it needed more than its limit{limit}; ask for more `memory`"
        code = -signal.SIGKILL if code == _KILLED else code
        return _End(code, why, out_of_memory=True)

    def _set(self, end: _End) -> None:
        self.note, self.out_of_memory = end.note, end.out_of_memory
        if not self._exit.done():
            self._exit.set_result(end.code)

    def _set_gone(self, error: Vanished) -> None:
        if not self._exit.done():
            self._exit.set_exception(error)


def _append(output: Iterable[bytes], seen: int, log: FileIO) -> str:
    """All but the first bytes, to their end even when the disk takes no more; says so then."""
    trouble = ""
    for piece in output:
        rest = piece[seen:]
        seen = max(0, seen - len(piece))
        while rest and not trouble:
            try:
                rest = rest[log.write(rest) :]
            except OSError as error:
                trouble = f"its output could not all be written: {error.strerror}"
    return trouble
