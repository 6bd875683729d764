"""The container engine of this machine, asked without its library: that leaves sockets open."""

import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.programs import installing
from xmcloud.cli.worker_unit import has_systemd

_NAME = "Containers"
_SECONDS = 3.0
_USUAL = "unix:///var/run/docker.sock"


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def check_engine(container_host: str, environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """`container_host` is the worker's setting."""
    host = container_host or environ.get("DOCKER_HOST") or _USUAL
    address = urlsplit(host)
    if address.scheme not in ("unix", "tcp", "http") or environ.get("DOCKER_TLS_VERIFY"):
        yield Check.ok(_NAME, f"{host} is not asked")
        return
    unix = address.scheme == "unix"
    connection = (
        _UnixConnection(address.path)
        if unix
        else HTTPConnection(address.hostname or "", address.port or 2375, timeout=_SECONDS)
    )
    try:
        with closing(connection):
            told = _version(connection)
    except PermissionError:
        detail = f"you may not use {address.path}, so jobs of images will fail"
        remedy = "sudo usermod -aG docker $USER, then log in again"
        yield Check.warning(_NAME, detail, remedy)
    except (OSError, HTTPException, ValueError) as error:
        detail = f"no engine answers at {host} ({error}), so jobs of images will fail"
        yield Check.warning(_NAME, detail, _starting(environ))
    else:
        yield Check.ok(_NAME, f"{told} at {host}")


def _version(connection: HTTPConnection) -> str:
    connection.request("GET", "/version")
    told: Any = json.loads(connection.getresponse().read(2**20))
    if not isinstance(told, dict) or not isinstance(told.get("Version"), str):
        raise ValueError("it is not asked as Docker is")
    parts = told.get("Components") or ()
    podman = any(part.get("Name") == "Podman Engine" for part in parts if isinstance(part, dict))
    return f"{'Podman' if podman else 'Docker'} {told['Version']}"


def _starting(environ: Mapping[str, str]) -> str:
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    podman = Path(runtime, "podman", "podman.sock")
    if podman.exists():
        return f"export DOCKER_HOST=unix://{podman}"
    if shutil.which("dockerd"):
        return f"sudo {'systemctl start docker' if has_systemd() else 'service docker start'}"
    if shutil.which("podman"):
        return f"systemctl --user start podman.socket; export DOCKER_HOST=unix://{podman}"
    return installing("podman")
