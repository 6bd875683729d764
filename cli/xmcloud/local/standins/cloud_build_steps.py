"""The work of a build: its source, its steps, its images."""

import asyncio
import io
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.cloud.devtools import cloudbuild_v1

from xmcloud.core.errors import NotFound
from xmcloud.local.standins.cloud_build_engine import Engine, Output
from xmcloud.local.standins.cloud_build_log import BuildLog
from xmcloud.local.standins.cloud_build_requests import KANIKO, literal

if sys.version_info >= (3, 12):
    import tarfile
else:  # Python 3.11 has the safe extraction from its fourth release on
    from backports import tarfile

Read = Callable[[str, str], Awaitable[bytes]]
_FailureType: Any = cloudbuild_v1.Build.FailureInfo.FailureType  # annotated as int
_CLASSIC = re.compile(rb"^Step \d+/\d+ : ")


@dataclass(frozen=True, slots=True)
class Failed(Exception):
    """The build ends as FAILURE."""

    kind: int
    detail: str

    @property
    def info(self) -> cloudbuild_v1.Build.FailureInfo:
        return cloudbuild_v1.Build.FailureInfo(type_=self.kind, detail=self.detail)


async def work(
    build: cloudbuild_v1.Build, read: Read, engine: Engine, log: BuildLog
) -> cloudbuild_v1.Results:
    """Raises `Failed`, and `NoEngine`."""
    await engine.check()
    with TemporaryDirectory(prefix="xmcloud-build-") as folder:
        workspace = Path(folder)
        log.line("FETCHSOURCE")
        await _fetch(build.source.storage_source, read, workspace, log)
        log.line("BUILD")
        outputs = [
            await _step(number, step, engine, workspace, log)
            for number, step in enumerate(build.steps)
        ]
    log.line("PUSH")
    pushed = [await _push(image, engine, log) for image in build.images]
    log.line("DONE")
    return cloudbuild_v1.Results(images=pushed, build_step_outputs=outputs)


async def _fetch(
    source: cloudbuild_v1.StorageSource, read: Read, workspace: Path, log: BuildLog
) -> None:
    url = f"gs://{source.bucket}/{source.object_}"
    log.line(f"Fetching storage object: {url}")
    try:
        archive = await read(source.bucket, source.object_)
        await asyncio.to_thread(_unpack, archive, workspace)
    except (NotFound, tarfile.TarError, EOFError, OSError) as error:
        log.line(f"ERROR: {url}: {error}")
        raise Failed(_FailureType.FETCH_SOURCE_FAILED, f"{url}: {error}") from error


def _unpack(archive: bytes, workspace: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        tar.extractall(workspace, filter="data")


async def _step(
    number: int,
    step: cloudbuild_v1.BuildStep,
    engine: Engine,
    workspace: Path,
    log: BuildLog,
) -> bytes:
    """What the step left as its output."""
    args = [literal(arg) for arg in step.args]
    if step.name.partition(":")[0] == KANIKO:
        code, output = await _kaniko(args, engine, workspace, log)
    else:
        env = dict(setting.split("=", 1) for setting in step.env)
        code, output = await _docker(args[1:], env, engine, workspace, log.add), b""
    if code != 0:
        told = f'build step {number} "{step.name}" failed: step exited with non-zero status: {code}'
        log.line(f"ERROR\nERROR: {told}")
        raise Failed(_FailureType.USER_BUILD_STEP, told)
    return output


async def _docker(
    args: list[str], env: dict[str, str], engine: Engine, workspace: Path, output: Output
) -> int:
    for file in _values(args, "--file", "-f"):
        if not _lies_in(workspace, file):
            output(f"{file}: the Dockerfile must be within the build context\n".encode())
            return 1
    for image in _values(args, "--cache-from"):
        await engine.pull(image, output)  # the first build finds none
    return await engine.build(args, env, workspace, output)


async def _kaniko(
    args: list[str], engine: Engine, workspace: Path, log: BuildLog
) -> tuple[int, bytes]:
    """The engine builds what kaniko would, and the log tells it as kaniko does."""
    image = "".join(_values(args, "--destination"))
    dockerfile = "".join(_values(args, "--dockerfile"))
    build = ["--file", dockerfile, "--tag", image, "."]
    code = await _docker(build, {}, engine, workspace, _as_kaniko(log.add))
    if code != 0:
        log.line("error building image: error building stage: failed to execute command")
        return code, b""
    digest = await engine.push(image, log.add)
    if digest is None:
        log.line(f"error pushing image: failed to push to destination {image}")
        return 1, b""
    asked = _values(args, "--image-name-with-digest-file")
    return 0, f"{_repository(image)}@{digest}".encode() if asked else b""


def _as_kaniko(output: Output) -> Output:
    def translated(text: bytes) -> None:
        output(b"".join(_CLASSIC.sub(b"INFO[0000] ", line) for line in text.splitlines(True)))

    return translated


async def _push(image: str, engine: Engine, log: BuildLog) -> cloudbuild_v1.BuiltImage:
    log.line(f"Pushing {image}")
    digest = await engine.push(image, log.add)
    if digest is None:
        told = f"failed to push image {image}"
        log.line(f"ERROR\nERROR: {told}")
        raise Failed(_FailureType.PUSH_FAILED, told)
    return cloudbuild_v1.BuiltImage(name=image, digest=digest)


def _lies_in(workspace: Path, file: str) -> bool:
    return (workspace / file).resolve().is_relative_to(workspace.resolve())


def _values(args: list[str], *names: str) -> list[str]:
    """Of an option, as `--name value` or `--name=value`."""
    found = []
    for place, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if name in names:
            found.append(value if equals else "".join(args[place + 1 : place + 2]))
    return found


def _repository(image: str) -> str:
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"
