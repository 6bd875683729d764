"""Containers on this machine's Docker Engine; processes where there is none."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from xmcloud.core.errors import XmcloudError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container as DockerContainer

_UNIX = "unix://"
_DEFAULT_ENGINE = f"{_UNIX}/var/run/docker.sock"
_THREADS = 64
_SIGNALED = 128
_T = TypeVar("_T")


class _Call(Protocol):
    async def __call__(self, function: Callable[[], _T], /) -> _T: ...


class CannotRun(XmcloudError):
    """The container does not start here."""

    slug, title, status = "cannot-run", "The container does not start", 422


@dataclass(frozen=True, slots=True)
class Container:
    """What to run. `folders` of this machine are seen at paths of the container; `command` is
    empty where the image's own is meant."""

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: Mapping[str, str]
    folders: Mapping[str, Path]
    log: Path


class Running(Protocol):
    """A container under way."""

    async def ended(self) -> int:
        """Its exit code, once it has ended; 128 and the signal's number if one ended it."""

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, and SIGKILL if it still runs after that; returns when it has ended."""


class Runner(Protocol):
    """Starts containers."""

    async def start(self, container: Container) -> Running:
        """Raises `CannotRun`."""


@asynccontextmanager
async def local_runner() -> AsyncIterator[Runner]:
    """Of the Docker Engine that the environment names, if one answers; else of processes."""
    async with AsyncExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(_THREADS, "containers"))
        client = await asyncio.get_running_loop().run_in_executor(threads, _engine)
        if client is None:
            yield Processes()
        else:
            stack.callback(client.close)
            yield DockerContainers(client, threads)


def _engine() -> "DockerClient | None":
    import docker
    from docker.errors import DockerException

    host = os.environ.get("DOCKER_HOST", _DEFAULT_ENGINE)
    if host.startswith(_UNIX) and not _listens(host.removeprefix(_UNIX)):
        return None
    try:
        return docker.from_env()  # asks for its version
    except DockerException:
        return None


def _listens(path: str) -> bool:
    """Docker's client leaves its socket open when it finds nobody there."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


class DockerContainers:
    """`Runner` on a Docker Engine; containers share the network of the machine."""

    def __init__(self, client: "DockerClient", threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def start(self, container: Container) -> "RunningContainer":
        from docker.errors import APIError

        starting = asyncio.ensure_future(self._call(lambda: self._start(container)))
        try:
            started = await asyncio.shield(starting)
        except APIError as error:
            raise CannotRun(f"{container.image} does not run: {error.explanation}.") from error
        except asyncio.CancelledError:
            with suppress(APIError):
                await RunningContainer(await starting, container.log, self._call).stop(0)
            raise
        return RunningContainer(started, container.log, self._call)

    def _start(self, container: Container) -> "DockerContainer":
        from docker.errors import APIError, ImageNotFound

        try:
            self._client.images.get(container.image)
        except ImageNotFound:
            self._client.images.pull(container.image)
        created = self._client.containers.create(
            container.image,
            list(container.args),
            entrypoint=list(container.command) or None,
            environment=dict(container.environment),
            name=container.name,
            network_mode="host",
            volumes={
                str(folder): {"bind": path, "mode": "rw"}
                for path, folder in container.folders.items()
            },
        )
        try:
            created.start()
        except APIError:
            created.remove(force=True)
            raise
        return created

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)


class RunningContainer:
    """A container of the engine; it is removed once it has ended."""

    def __init__(self, container: "DockerContainer", log: Path, call: _Call) -> None:
        self._container = container
        self._call = call
        self._end = asyncio.ensure_future(call(lambda: self._watch(log)))

    async def ended(self) -> int:
        return await asyncio.shield(self._end)

    async def stop(self, grace_seconds: float) -> None:
        from docker.errors import NotFound

        if not self._end.done():
            with suppress(NotFound):
                await self._call(lambda: self._container.stop(timeout=int(grace_seconds)))
        await self.ended()

    def _watch(self, log: Path) -> int:
        with log.open("wb") as file:
            for chunk in self._container.logs(stream=True, follow=True):
                file.write(chunk)
                file.flush()
        code: int = self._container.wait(timeout=None)["StatusCode"]
        self._container.remove(force=True)
        return code


class Processes:
    """`Runner` of the container's command on this machine, with its own files and programs.

    A container can run so only if its definition has a command, and that is here.
    """

    async def start(self, container: Container) -> "RunningProcess":
        words = [_seen(word, container) for word in (*container.command, *container.args)]
        if not container.command:
            raise CannotRun(
                f"{container.image} does not run: no Docker Engine answers on this machine, and"
                " without one the image's own command is not known.",
                "Start Docker, or set a command.",
            )
        search = container.environment.get("PATH") or os.environ.get("PATH", os.defpath)
        program = shutil.which(words[0], path=search)
        if program is None:
            raise CannotRun(
                f"{container.image} does not run: no Docker Engine answers on this machine, which"
                f" has no {words[0]} itself.",
                "Start Docker.",
            )
        variables = {name: _seen(text, container) for name, text in container.environment.items()}
        with container.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *words,
                executable=program,
                env={"PATH": search, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return RunningProcess(process)


def _seen(text: str, container: Container) -> str:
    """With the folders where this machine has them."""
    for path, folder in container.folders.items():
        text = text.replace(f"{path}/", f"{folder}/")
    return text


class RunningProcess:
    """A process that leads a session; what it started ends with it, as in a container."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._end = asyncio.create_task(self._watch())

    async def ended(self) -> int:
        return await asyncio.shield(self._end)

    async def stop(self, grace_seconds: float) -> None:
        try:
            self._signal(signal.SIGTERM)
            await asyncio.wait({self._end}, timeout=grace_seconds)
        finally:
            self._signal(signal.SIGKILL)
        await self.ended()

    async def _watch(self) -> int:
        code = await self._process.wait()
        self._signal(signal.SIGKILL)
        return code if code >= 0 else _SIGNALED - code

    def _signal(self, number: signal.Signals) -> None:
        """To its group, whose number may be another's later on."""
        if not self._end.done():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
