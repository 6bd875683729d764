"""The Docker engine of this machine."""

import os
import socket
from pathlib import Path

from xmcloud.xm_cloud.packaging.images import Say
from xmcloud.xm_cloud.packaging.local_builds import LocalEngine
from xmcloud.xm_cloud.unsupported import Unsupported

_PING_SECONDS = 5
_SOCKET = "unix:///var/run/docker.sock"


def find_engine(say: Say) -> LocalEngine | None:
    """The engine that DOCKER_HOST or Docker's own settings name, if it answers."""
    if not engine_may_answer():
        return None  # without loading Docker's library
    import docker
    import requests
    from docker.errors import DockerException

    environment = {**os.environ, "DOCKER_HOST": _host()}
    try:
        client = docker.DockerClient.from_env(environment=environment, timeout=_PING_SECONDS)
    except DockerException:
        return None
    try:
        client.ping()
    except (DockerException, requests.RequestException):
        client.close()
        return None
    client.api.timeout = None  # type: ignore[assignment] # a step may be silent for long
    return LocalEngine(client, say)


def needed_engine(name: str, say: Say) -> LocalEngine:
    """To make an image of that name. Raises `Unsupported` where none answers."""
    engine = find_engine(say)
    if engine is None:
        raise Unsupported(
            f"The image {name} needs a Docker engine on this machine, and none answers.",
            "Start one, or set DOCKER_HOST to where it is.",
        )
    return engine


def engine_may_answer() -> bool:
    """False where there is none; a question to a socket at most."""
    host = _host()
    return not host.startswith("unix://") or _listens(host.removeprefix("unix://"))


def engine_is_set_up() -> bool:
    """Whether its socket is there, or it is on another machine; nothing connects to it."""
    host = _host()
    return not host.startswith("unix://") or Path(host.removeprefix("unix://")).exists()


def _host() -> str:
    return os.environ.get("DOCKER_HOST") or _host_in_settings()


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            return False
    return True


def _host_in_settings() -> str:
    folder = os.environ.get("DOCKER_CONFIG") or Path("~/.docker").expanduser()
    if not Path(folder, "config.json").exists():
        return _SOCKET
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        context = ContextAPI.get_current_context()
    except DockerException:  # settings that Docker cannot read either
        return _SOCKET
    return context.Host if context is not None and context.Host else _SOCKET
