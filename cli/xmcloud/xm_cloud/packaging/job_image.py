"""The context of an image that does what a job of Python code does."""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from xmcloud.core.arguments import command_line, render
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Argument
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.archives.tar import Entry, file_of, padding, tarball
from xmcloud.xm_cloud.packaging.contexts import DOCKERFILE
from xmcloud.xm_cloud.packaging.dockerfiles import FOLDER

Installer = Literal["pip", "uv"]

_CODE, _VENV, _WANTED = "/code", "/opt/venv", "/opt/requirements"
_GIT = "RUN apt-get update && apt-get install -y --no-install-recommends git"
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Requirements:
    """Files that are installed from, and how."""

    files: Mapping[str, str]
    options: Sequence[str] = ()
    installer: Installer = "pip"
    """uv for what pip cannot read."""

    @property
    def steps(self) -> list[str]:
        """Of a Dockerfile, in whose context the files are."""
        if not any(text.strip() for text in self.files.values()):
            return []
        pip = f"{_VENV}/bin/python -m pip install --no-cache-dir"
        install, cleaned = pip, ""
        if self.installer == "uv":
            install = f"{_VENV}/bin/uv pip install --no-cache --python {_VENV}"
            cleaned = f" && {_VENV}/bin/python -m pip uninstall -y uv"
            install = f"{pip} uv && {install}"
        for name in self.files:
            flag = "--constraint" if name == "constraints.txt" else "--requirement"
            install += f" {flag} {_WANTED}/{name}"
        git = [_GIT] if any("git+" in text for text in self.files.values()) else []
        options = "".join(f" {option}" for option in self.options)
        return [
            *git,
            *(f"COPY {FOLDER}/{name} {_WANTED}/{name}" for name in self.files),
            f"RUN {install}{options}{cleaned}",
        ]


@dataclass(frozen=True, slots=True)
class JobCode:
    """What a job runs, with its code in a folder of this machine."""

    folder: Path
    directory: str
    """The working directory, below the folder."""

    command: Sequence[str]
    arguments: Sequence[Argument]
    environment: Mapping[str, str]
    requirements: Requirements
    imported: Sequence[PurePosixPath] = ()
    """Folders below `folder` whose modules the code imports."""


def job_context(code: JobCode, base: str) -> Spool:
    """All that is needed to build it. The caller closes it. Raises `InvalidInput`, StorageFull."""
    own = {DOCKERFILE: dockerfile(code, base)}
    own |= {f"{FOLDER}/{name}": text for name, text in code.requirements.files.items()}
    with tarball() as spool:
        for name, text in own.items():
            spool.write(file_of(name.encode(), 0o644, text.encode()))
        for path in _all_below(code.folder):
            _write(spool, path, b"code/" + os.fsencode(path.relative_to(code.folder)))
    return spool


def dockerfile(code: JobCode, base: str) -> str:
    """Raises `InvalidInput` for a variable that a Dockerfile cannot hold."""
    own = {
        "PATH": f"{_VENV}/bin:$PATH",
        "VIRTUAL_ENV": _VENV,
        "PYTHONUNBUFFERED": "1",
        **_import_path(code.imported),
    }
    if any(argument.shell for argument in code.arguments):
        entrypoint, arguments = command_line(code.command, code.arguments), list[str]()
    else:
        entrypoint, arguments = list(code.command), render(code.arguments)
    lines = [
        f"FROM {base}",
        f"RUN python3 -m venv {_VENV}",
        *(f'ENV {name}="{value}"' for name, value in own.items()),
        *code.requirements.steps,
        f"COPY code/ {_CODE}/",
        *(f"ENV {name}={_quoted(name, value)}" for name, value in code.environment.items()),
        f"WORKDIR {os.path.normpath(f'{_CODE}/{code.directory}').replace('$', chr(92) + '$')}",
        f"ENTRYPOINT {json.dumps(entrypoint)}",
        f"CMD {json.dumps(arguments)}",
    ]
    return "\n".join(lines) + "\n"


def _import_path(folders: Sequence[PurePosixPath]) -> dict[str, str]:
    path = ":".join(os.path.normpath(f"{_CODE}/{folder}") for folder in folders)
    return {"PYTHONPATH": path} if path else {}


def _quoted(name: str, value: str) -> str:
    if "\n" in value or "\r" in value:
        raise InvalidInput("environment", {name: value}, "a variable of one line, for an image")
    for special in ("\\", '"', "$"):
        value = value.replace(special, f"\\{special}")
    return f'"{value}"'


def _all_below(folder: Path) -> Iterator[Path]:
    """Without repositories' own data, always in the same order."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = [name for name in folders if name not in links]
        for name in (*folders, *links, *sorted(name for name in files if name != ".git")):
            yield Path(place, name)


def _write(spool: Spool, path: Path, name: bytes) -> None:
    facts = path.lstat()
    mode = stat.S_IMODE(facts.st_mode)
    if stat.S_ISLNK(facts.st_mode):
        spool.write(Entry(name, "link", 0o777, link=os.fsencode(os.readlink(path))).header())
    elif stat.S_ISDIR(facts.st_mode):
        spool.write(Entry(name, "folder", mode).header())
    else:
        spool.write(Entry(name, "file", mode, facts.st_size).header())
        with path.open("rb") as content:
            shutil.copyfileobj(content, cast(IO[bytes], spool), _COPY_BYTES)
        spool.write(bytes(padding(facts.st_size)))
