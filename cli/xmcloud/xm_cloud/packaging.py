"""From executable specs to what a worker can run."""

import hashlib
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from xmcloud import xm
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.models import Binary, Command, Executable, PythonSource
from xmcloud.xm_cloud.executors import LocalSpec, WorkerPoolSpec
from xmcloud.xm_cloud.unsupported import Unsupported

SCRIPT = ".xmcloud-entrypoint.sh"
PARALLEL = 8
UPLOAD_LIMIT = 32 * 1024 * 1024
"""Bytes of a blob; what the control plane takes in one request."""


class BlobStore(Protocol):
    """What packaging needs of the client."""

    def has_blob(self, digest: str) -> bool: ...

    def put_blob(self, digest: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class Packaged(xm.Executable):
    """An executable that a worker can run, and the executor spec it was packaged for."""

    executable: Executable
    executor_spec: xm.ExecutorSpec


def package(blobs: BlobStore, packageables: Sequence[xm.Packageable]) -> list[Packaged]:
    """Packages in parallel and keeps the order; raises the first error, in that order."""
    if len(packageables) == 1:
        return [package_one(blobs, packageables[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda packageable: package_one(blobs, packageable), packageables))


def package_one(blobs: BlobStore, packageable: xm.Packageable) -> Packaged:
    """Raises `Unsupported` for a kind that cannot run as a process."""
    spec = packageable.executable_spec
    return Packaged(
        spec.name,
        executable=_executable(blobs, spec, packageable.executor_spec),
        executor_spec=packageable.executor_spec,
        args=packageable.args,
        env_vars=packageable.env_vars,
    )


def _executable(
    blobs: BlobStore, spec: xm.ExecutableSpec, executor_spec: xm.ExecutorSpec
) -> Executable:
    if not isinstance(executor_spec, LocalSpec | WorkerPoolSpec):
        raise Unsupported(
            f"executor_spec is {executor_spec!r}.",
            "Package for Local.Spec() or WorkerPool.Spec().",
        )
    match spec:
        case xm.Binary():
            program = _program(spec)
            if isinstance(executor_spec, LocalSpec):
                return Command(command=(str(program),), directory=os.getcwd())
            return Binary(
                file=_upload(blobs, f"The program {program}", program.read_bytes()),
                name=program.name,
            )
        case xm.PythonContainer():
            return _python_source(blobs, spec)
        case _:
            raise Unsupported(
                f"{type(spec).__name__} {spec.name!r} needs a container or a build.",
                "What runs as a process works now: xm.python_container(..) and xm.binary(..).",
            )


def _program(spec: xm.Binary) -> Path:
    path = Path(spec.absolute_path)
    if spec.dependencies:
        raise Unsupported(
            f"dependencies of {path} were given.",
            "Leave them out and put the files where the program finds them.",
        )
    if not path.is_file():
        raise InvalidInput("path", spec.path, f"a program; there is no file {path}")
    if not os.access(path, os.X_OK):
        raise InvalidInput("path", spec.path, f"executable: chmod +x {shlex.quote(str(path))}")
    return path


def _python_source(blobs: BlobStore, spec: xm.PythonContainer) -> PythonSource:
    from xmcloud.xm_cloud.archive import pack

    _refuse_images(spec)
    _say_once()
    folder = Path(spec.path)
    prefix = f"{folder.name}/" if spec.use_deep_module else ""
    entrypoint: tuple[str, ...]
    extra: dict[str, bytes] = {}
    match spec.entrypoint:
        case xm.ModuleName(module):
            entrypoint = ("python", "-m", module)
        case xm.CommandList() as commands:
            entrypoint = ("bash", f"./{prefix}{SCRIPT}")
            extra[SCRIPT] = f"#!/bin/bash\n\n{commands.to_script()}\n".encode()
    return PythonSource(
        archive=_upload(blobs, f"The archive of {folder}", pack(folder, prefix, extra)),
        entrypoint=entrypoint,
        requirements=_requirements(folder / "requirements.txt"),
    )


def _refuse_images(spec: xm.PythonContainer) -> None:
    for field, value in (
        ("base_image", spec.base_image),
        ("docker_instructions", spec.docker_instructions),
    ):
        if value:
            raise Unsupported(
                f"{field} is {value!r}, but the code runs in an environment, not in an image.",
                f"Leave {field} out and name the packages in {spec.path}/requirements.txt.",
            )


@cache
def _say_once() -> None:
    sys.stderr.write(
        "xmcloud: python_container runs in an environment made from requirements.txt, "
        "not in an image.\n"
    )


def _requirements(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except ValueError:
        raise InvalidInput("requirements", str(path), "a text file in UTF-8") from None


def _upload(blobs: BlobStore, what: str, data: bytes) -> str:
    if len(data) > UPLOAD_LIMIT:
        raise TooLarge(what, len(data), UPLOAD_LIMIT)
    digest = hashlib.sha256(data).hexdigest()
    if not blobs.has_blob(digest):
        blobs.put_blob(digest, data)
    return digest
