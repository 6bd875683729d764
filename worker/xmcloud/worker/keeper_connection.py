"""The worker's end of the connection to its keeper."""

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

from xmcloud.worker import family, keeper
from xmcloud.worker.identity import mark
from xmcloud.worker.running import Vanished

_SOCKET = "keeper.sock"
_LOG = "keeper.log"
_MARKS = {"XMCLOUD_PROCESS_MARK", *mark("", 0)}
_HELLO_SECONDS = 10.0
_ENDING_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """Asks a keeper for processes, and hears of their end.

    `on_exit` is called with the number of a process, its exit code, and whether the keeper has
    other children still; `on_lost` when the keeper is gone without having been left.
    """

    def __init__(
        self, on_exit: Callable[[int, int, bool], None], on_lost: Callable[["Connection"], None]
    ) -> None:
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._messages = keeper.Messages()
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies: deque[asyncio.Future[dict[str, Any]]] = deque()
        self._popen: subprocess.Popen[bytes] | None = None
        self._left = False
        self.lost = False

    @classmethod
    async def to_running(cls, folder: Path, *callbacks: Any) -> Self | None:
        """To the keeper that an earlier run of the worker started; None if there is none."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            with _short(folder) as short:
                connection.connect(f"{short}/{_SOCKET}")
        except OSError:
            connection.close()
            return None
        made = await cls._over(connection, *callbacks)
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await asyncio.shield(made._hello)
        except (Vanished, TimeoutError):
            made._left = True
            made._transport.abort()
            return None
        return made

    @classmethod
    async def to_new(cls, folder: Path, *callbacks: Any) -> Self:
        """To a keeper that is started now. Raises OSError, and Vanished when it ends at once."""
        (folder / _SOCKET).unlink(missing_ok=True)
        connection = socket.socket(socket.AF_UNIX)
        with socket.socket(socket.AF_UNIX) as listener, _short(folder) as short:
            listener.bind(f"{short}/{_SOCKET}")
            os.chmod(folder / _SOCKET, 0o600)
            listener.listen()
            connection.connect(f"{short}/{_SOCKET}")
            popen = _start(folder, listener)
        made = await cls._over(connection, *callbacks)
        made._popen = popen
        await asyncio.shield(made._hello)
        return made

    @classmethod
    async def _over(cls, connection: socket.socket, *callbacks: Any) -> Self:
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        return (await loop.create_unix_connection(lambda: cls(*callbacks), sock=connection))[1]

    @property
    def pid(self) -> int:
        return int(self._hello.result()["keeper"])

    @property
    def subreaper(self) -> bool:
        """Whether orphans of jobs become its children."""
        return bool(self._hello.result()["subreaper"])

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """What it looked after when it was connected to."""
        return list(self._hello.result()["jobs"])

    async def spawn(self, request: Mapping[str, Any]) -> tuple[int, float]:
        """Number and start time of a new process.

        Raises OSError, ValueError, and Vanished when nobody can tell whether it was started.
        """
        if self.lost:
            raise _gone()
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies.append(reply)
        self._send({"do": "spawn", **request})
        answer = await reply
        if "errno" in answer:
            number = answer["errno"]
            raise OSError(number, os.strerror(number), answer["filename"])
        if "invalid" in answer:
            raise ValueError(answer["invalid"])
        return answer["pid"], answer["created"]

    def signal(self, pid: int, number: int) -> None:
        """To the group of a process, unless that ended."""
        self._send({"do": "signal", "pid": pid, "signal": number})

    def leave(self) -> None:
        """Let it end with the last process it looks after."""
        self._left = True
        self._send({"do": "leave"})
        self._transport.close()

    async def ended(self) -> bool:
        """Whether it is no more, some moments after the connection's end."""
        ended = await family.gone(lambda: family.found(self.pid), _ENDING_SECONDS)
        if self._popen is not None:
            if ended:
                await asyncio.to_thread(self._popen.wait)
            else:
                self._popen.returncode = 0  # it outlives this process: nobody waits for it
        return ended

    def _send(self, message: Mapping[str, Any]) -> None:
        self._transport.write(keeper.packed(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._messages.feed(data):
            if "spawned" in message:
                _resolve(self._replies.popleft(), message["spawned"])
            elif "ended" in message:
                self._on_exit(message["ended"], message["code"], message["left"])
            else:
                _resolve(self._hello, message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for waiting in (self._hello, *self._replies):
            if not waiting.done():
                waiting.set_exception(_gone())
                waiting.exception()
        if not self._left:
            self._on_lost(self)


def _gone() -> Vanished:
    return Vanished(f"the process that looks after jobs is gone; {_LOG} may say why")


def _resolve(future: "asyncio.Future[dict[str, Any]]", message: dict[str, Any]) -> None:
    if not future.done():
        future.set_result(message)


def _start(folder: Path, listener: socket.socket) -> "subprocess.Popen[bytes]":
    """In a session of its own, which no signal to the worker's reaches."""
    command = [sys.executable, "-I", "-S", f"-Xutf8={sys.flags.utf8_mode}", keeper.__file__]
    environment = {name: value for name, value in os.environ.items() if _is_harmless(name)}
    with (folder / _LOG).open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=listener.fileno(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _is_harmless(name: str) -> bool:
    """No setting or secret of the worker, but a mark by which others find what they started."""
    return not name.startswith("XMCLOUD_") or name in _MARKS


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path of the folder that fits into the address of a socket."""
    if sys.platform != "linux":
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
