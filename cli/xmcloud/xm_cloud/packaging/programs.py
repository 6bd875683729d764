"""Programs: what runs as a process on a worker's machine."""

import os
import shlex
from pathlib import Path

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Binary, Command, PythonSource
from xmcloud.xm_cloud.archives.uploads import BlobStore, upload, upload_folder
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs, runfiles_of
from xmcloud.xm_cloud.packaging.contexts import read_text
from xmcloud.xm_cloud.unsupported import Unsupported

SCRIPT = ".xmcloud-entrypoint.sh"
_LOCKS = ("uv.lock", "poetry.lock", "pylock.toml", "requirements.lock")


def command_of(spec: xm.Binary) -> Command:
    """The program where it lies, for this machine. Raises as `binary_of` does."""
    return Command(command=(str(_program(spec)),), directory=os.getcwd())


def binary_of(blobs: BlobStore, spec: xm.Binary) -> Binary:
    """A copy of the program. Raises `InvalidInput`, and `Unsupported` for dependencies."""
    program = _program(spec)
    return Binary(file=upload(blobs, f"The program {program}", program), name=program.name)


def bazel_binary_of(blobs: BlobStore, outputs: BazelOutputs) -> Binary:
    """A copy of what Bazel built, with its runfiles. Raises UnexpectedOutputs and BadRunfile."""
    program, what = outputs.program(), f"What {outputs.label} builds"
    if not runfiles_of(program).is_dir():
        return Binary(file=upload(blobs, what, program), name=program.name)
    from xmcloud.xm_cloud.packaging.runfiles import pack_binary

    with pack_binary(outputs) as archive:
        return Binary(file=upload(blobs, what, archive), name=program.name, archive=True)


def python_source_of(blobs: BlobStore, spec: xm.PythonContainer) -> PythonSource:
    """The code, for an environment that is made from its requirements."""
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
        archive=upload_folder(blobs, folder, prefix, extra),
        entrypoint=entrypoint,
        requirements=_requirements(folder, prefix),
    )


def _requirements(folder: Path, prefix: str) -> str:
    """Those of the folder; '' where a lock says more, which the worker finds in the archive."""
    if not prefix and any((folder / name).is_file() for name in _LOCKS):
        return ""
    return read_text(folder / "requirements.txt", "requirements") or ""


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
