"""Dockerfiles: one for a folder of Python code, and others with our entrypoint added."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.packaging.dockerfile_parsing import startup

FOLDER = ".xmcloud"
"""Ours, both in the context of a build and at the root of the image."""

WRAPPER, COMMANDS = f"{FOLDER}/entrypoint.py", f"{FOLDER}/commands.sh"

_START = (
    "python3 -ISc 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null"
    f' && exec python3 -IS /{WRAPPER} "$@"; exec "$@"'
)
"""Our entrypoint, or without a Python for it the command itself."""

_WITHOUT_SHELL = re.compile(r"scratch|.*\bdistroless\b.*")
_FOLDER_NAME = re.compile(r"[\w.+ -]+")
_NEEDS_CODE = re.compile(
    r"^\s*(-[rcef]\b|--(requirement|constraint|editable|find-links)\b|[./])|\bfile:", re.MULTILINE
)
_NEEDS_GIT = re.compile(r"\bgit\+")
_USER = (
    "RUN getent passwd 1000 >/dev/null"
    " || useradd -m -u 1000 clouduser || adduser -D -u 1000 clouduser"
)
_OWNED = "--chown=1000:root"


def python_dockerfile(spec: xm.PythonContainer, requirements: str | None) -> str:
    """For a context in which the folder lies under its own name. Raises InvalidInput."""
    base = spec.base_image or f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
    lines = [
        f"FROM {base}",
        _USER,
        *(
            spec.docker_instructions
            or default_steps(Path(spec.path).name, spec.use_deep_module, requirements)
        ),
    ]
    if isinstance(spec.entrypoint, xm.CommandList):
        lines.append(f"COPY {COMMANDS} /{COMMANDS}")
    return "\n".join([*lines, *_start(python_command(spec), "[]")]) + "\n"


def python_command(spec: xm.PythonContainer) -> tuple[str, ...]:
    """What runs in the image; the arguments follow it."""
    match spec.entrypoint:
        case xm.ModuleName(module):
            return ("python3", "-m", module)
        case xm.CommandList():
            return ("bash", f"/{COMMANDS}")


def wrapped_dockerfile(text: str) -> str:
    """Has the entrypoint that the Dockerfile declares started by ours.

    Unchanged if it declares none, or stands on an image that has no shell.
    """
    found = startup(text)
    if not found.entrypoint or _WITHOUT_SHELL.fullmatch(found.base):
        return text
    return "\n".join([text.rstrip(), *_start(found.entrypoint, found.cmd or "[]")]) + "\n"


def _start(command: Sequence[str], cmd: str) -> list[str]:
    """A new entrypoint loses the CMD that was there before, so that follows again."""
    entrypoint = ["/bin/sh", "-c", _START, "xmcloud", *command]
    return [
        f"COPY {WRAPPER} /{WRAPPER}",
        f"ENTRYPOINT {json.dumps(entrypoint)}",
        f"CMD {cmd}",
    ]


def default_steps(name: str, use_deep_module: bool, requirements: str | None) -> list[str]:
    """For a context that holds the folder under that name. Raises InvalidInput for the name."""
    if not _FOLDER_NAME.fullmatch(name):
        raise InvalidInput(
            "path", name, "a folder whose name holds letters, digits, spaces and . _ + - only"
        )
    work = "/workdir" if use_deep_module else f"/{name}"
    home = f"/workdir/{name}" if use_deep_module else f"/{name}"
    code = f"COPY {_OWNED} {json.dumps([f'{name}/', f'{home}/'], ensure_ascii=False)}"
    return [
        "ENV LANG=C.UTF-8",
        f"RUN mkdir -p -m 775 '{work}' '{home}' && chown 1000:root '{work}' '{home}'",
        f"WORKDIR {work}",
        *_with_requirements(name, home, code, requirements),
    ]


def _with_requirements(name: str, home: str, code: str, requirements: str | None) -> list[str]:
    """The code comes last, so that a change of it installs nothing again."""
    if requirements is None:
        return [code]
    pair = [f"{name}/requirements.txt", f"{home}/requirements.txt"]
    file = f"COPY {_OWNED} {json.dumps(pair, ensure_ascii=False)}"
    git = "RUN apt-get update && apt-get install -y --no-install-recommends git"
    install = (
        f"RUN cd '{home}' && PIP_BREAK_SYSTEM_PACKAGES=1"
        " python3 -m pip install --no-cache-dir -r requirements.txt"
    )
    first = [git] if _NEEDS_GIT.search(requirements) else []
    if _NEEDS_CODE.search(requirements):
        return [*first, code, install]
    return [*first, file, install, code]
