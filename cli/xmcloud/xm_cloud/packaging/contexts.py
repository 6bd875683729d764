"""The contexts of image builds: archives that hold everything, the Dockerfile too."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.archives.archive import pack
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.archives.tar import Entry, file_of, padding, tarball
from xmcloud.xm_cloud.packaging.dockerfiles import (
    COMMANDS,
    FOLDER,
    WRAPPER,
    python_dockerfile,
    wrapped_dockerfile,
)
from xmcloud.xm_cloud.packaging.dockerignore import ignored_by

if TYPE_CHECKING:
    import tarfile

DOCKERFILE = f"{FOLDER}/Dockerfile"
IGNORE_FILE = ".dockerignore"
BESIDE_THE_CODE = ("vertex_utils.py", "vizier_worker.py")
"""Modules that code may import by these names, with --xm_wrap_late_bindings."""


def python_context(spec: xm.PythonContainer) -> Spool:
    """The folder under its own name. The caller closes it. Raises as `pack` does."""
    folder = Path(spec.path)
    requirements = read_text(folder / "requirements.txt", "requirements")
    ours = {
        DOCKERFILE: python_dockerfile(spec, requirements).encode(),
        WRAPPER: _wrapper(),
    }
    if isinstance(spec.entrypoint, xm.CommandList):
        ours[COMMANDS] = f"{spec.entrypoint.to_script()}\n".encode()
    if flags.wrap_late_bindings():
        ours |= {f"{folder.name}/{name}": _own(name) for name in _not_there(folder)}
    return _archive(folder, f"{folder.name}/", ours)


def dockerfile_context(spec: xm.Dockerfile) -> Spool:
    """What .dockerignore leaves of the folder. The caller closes it. Raises as `pack` does."""
    folder, file = Path(spec.path), Path(spec.dockerfile)
    text = read_text(file, "dockerfile")
    if text is None:
        raise InvalidInput("dockerfile", spec.dockerfile, "the path of a Dockerfile")
    patterns = read_text(file.with_name(f"{file.name}{IGNORE_FILE}"), IGNORE_FILE)
    if patterns is None:
        patterns = read_text(folder / IGNORE_FILE, IGNORE_FILE)
    dockerfile = wrapped_dockerfile(text)
    ours = {DOCKERFILE: dockerfile.encode()}
    if dockerfile != text:
        ours[WRAPPER] = _wrapper()
    ignored = ignored_by(patterns or "")
    # It has done its work here; a builder that reads it again could lose what is ours.
    return _archive(folder, "", ours, lambda name: name == IGNORE_FILE or ignored(name))


def read_text(path: Path, field: str) -> str | None:
    """None if there is no such file. Raises InvalidInput for what is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except ValueError:
        raise InvalidInput(field, str(path), "a text file in UTF-8") from None
    except OSError as error:
        raise InvalidInput(field, str(path), f"readable ({error.strerror})") from None


def _wrapper() -> bytes:
    return Path(__file__).with_name("container_entrypoint.py").read_bytes()


def _not_there(folder: Path) -> list[str]:
    return [name for name in BESIDE_THE_CODE if not (folder / name).exists()]


def _own(name: str) -> bytes:
    return Path(__file__).parents[1].joinpath(name).read_bytes()


def _archive(
    folder: Path,
    prefix: str,
    ours: Mapping[str, bytes],
    ignored: Callable[[str], bool] = lambda name: False,
) -> Spool:
    """The files of the folder below `prefix`, and ours at the top."""
    import tarfile

    with (
        tarball() as spool,
        pack(folder, prefix) as files,
        tarfile.open(fileobj=files.file, mode="r:gz") as tar,
    ):
        for member in tar:
            if not ignored(member.name):
                _copy(spool, tar, member)
        for name, data in ours.items():
            spool.write(file_of(name.encode(), 0o755, data))
    return spool


def _copy(spool: Spool, tar: "tarfile.TarFile", member: "tarfile.TarInfo") -> None:
    name = os.fsencode(member.name)
    if member.issym():
        spool.write(Entry(name, "link", member.mode, link=os.fsencode(member.linkname)).header())
    elif member.isdir():
        spool.write(Entry(name, "folder", member.mode).header())
    else:
        spool.write(Entry(name, "file", member.mode, member.size).header())
        content = tar.extractfile(member)
        assert content is not None
        shutil.copyfileobj(content, cast(IO[bytes], spool), 1024 * 1024)
        spool.write(bytes(padding(member.size)))
