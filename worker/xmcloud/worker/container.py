"""One container of a job, from its start to its removal."""

import asyncio
import logging
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import APIError, DockerException, NotFound

from xmcloud.worker.aside import aside
from xmcloud.worker.running import Vanished

if TYPE_CHECKING:
    from docker.models.containers import Container as EngineContainer
    from docker.types.daemon import CancellableStream

_KILLED_SECONDS = 10.0
_ENGINE_AWAY_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
_KILLED = 128 + signal.SIGKILL

logger = logging.getLogger("xmcloud.worker")


class Container:
    """Followed by one thread, which writes its output to the log of the attempt."""

    def __init__(
        self,
        container: "EngineContainer",
        output: "CancellableStream[bytes]",
        log: Path,
        memory: int | None,
    ) -> None:
        """`output` comes from before its start; `memory` is its limit in bytes."""
        self.note = ""
        self._container = container
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._follow, args=(output, log), daemon=True).start()

    async def wait(self) -> int:
        """The exit code, or minus SIGKILL when its memory ran out. Raises `Vanished`."""
        return await asyncio.shield(self._exit)

    async def end(self, grace: float) -> None:
        """The image's stop signal, SIGKILL after `grace` seconds."""
        if grace > 0:
            await self._send(self._container.attrs["Config"].get("StopSignal") or "SIGTERM")
            await asyncio.wait({self._exit}, timeout=grace)
        if not self._exit.done():
            await self._send("SIGKILL")
            await asyncio.wait({self._exit}, timeout=_KILLED_SECONDS)

    async def bury(self, grace: float) -> None:
        """Remove it."""
        remove = partial(self._container.remove, v=True, force=True)
        try:
            with suppress(NotFound):
                await aside(remove)
        except (DockerException, OSError) as error:
            logger.warning("container %s was not removed: %s", self._container.name, error)

    async def _send(self, name: str) -> None:
        send = partial(self._container.kill, signal=name)
        try:
            await aside(send)
        except (DockerException, OSError) as error:
            if not (isinstance(error, APIError) and error.status_code in (404, 409)):
                logger.warning("container %s got no %s: %s", self._container.name, name, error)

    def _follow(self, output: "CancellableStream[bytes]", log: Path) -> None:
        lost = ""
        try:
            lost = _write(output, log)
            code, why = self._ended()
        except Vanished as error:
            tell = partial(self._set_gone, error)
        else:
            tell = partial(self._set, code, "; ".join(filter(None, (why, lost))))
        with suppress(RuntimeError):  # the worker may be gone
            self._loop.call_soon_threadsafe(tell)

    def _ended(self) -> tuple[int, str]:
        deadline = time.monotonic() + _ENGINE_AWAY_SECONDS
        while True:
            try:
                code = int(self._container.wait()["StatusCode"])
                self._container.reload()
                state = self._container.attrs["State"]
                return self._verdict(code, state)
            except NotFound:
                return _KILLED, "somebody removed the container"
            except (DockerException, OSError) as error:
                if time.monotonic() > deadline:
                    raise Vanished(f"the container engine does not answer: {error}") from error
                time.sleep(_PAUSE_SECONDS)

    def _verdict(self, code: int, state: dict[str, object]) -> tuple[int, str]:
        if not state.get("OOMKilled") or code == 0:
            return code, str(state.get("Error") or "")
        limit = f" of {self._memory / 2**20:,.0f} MiB" if self._memory else ""
        why = f"out of memory: it needed more than its limit{limit}; ask for more `memory`"
        return (-signal.SIGKILL if code == _KILLED else code), why

    def _set(self, code: int, note: str) -> None:
        self.note = note
        if not self._exit.done():
            self._exit.set_result(code)

    def _set_gone(self, error: Vanished) -> None:
        if not self._exit.done():
            self._exit.set_exception(error)


def _write(output: "CancellableStream[bytes]", log: Path) -> str:
    """To the end of the output, even when the disk takes no more; says so then."""
    trouble = ""
    # When the connection breaks, the engine is asked next what became of the container.
    with suppress(DockerException, OSError), log.open("ab", buffering=0) as file:
        for piece in output:
            try:
                file.write(piece)
            except OSError as error:
                trouble = f"its output could not all be written: {error.strerror}"
    with suppress(DockerException, OSError):
        output.close()
    return trouble
