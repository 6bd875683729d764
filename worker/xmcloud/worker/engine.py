"""What is asked of the container engine: Docker, or one that speaks its protocol."""

import io
import os
import re
import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TextIO

from xmcloud.worker.container_plan import HOST, ContainerPlan, ImageFacts, job_of
from xmcloud.worker.disk import DiskFull
from xmcloud.worker.setup import SetupFailed

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image as EngineImage

_SECONDS = 120
_CONNECTIONS = 64
_OWN_NETWORKS = {"bridge", "podman"}
_CONFLICT = 409
_PODMAN_TELLS_OUT_OF_MEMORY = (5,)
_OTHER_USERS = {"name=rootless", "name=userns"}
_USER_LINE = re.compile(r"[^:\n]*:[^:\n]*:(\d+):", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """What sort of engine answers."""

    podman: tuple[int, ...]
    """Its version; nothing for Docker."""

    own_users: bool
    """Its containers have users of their own: root in them is not the machine's root."""

    @property
    def tells_out_of_memory(self) -> bool:
        """Whether it says of a container that was killed if its memory ran out."""
        return not self.podman or self.podman >= _PODMAN_TELLS_OUT_OF_MEMORY


def connect(host: str) -> "DockerClient":
    """'': the engine that DOCKER_HOST tells or this machine has. Raises `SetupFailed`."""
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise SetupFailed(
            "The worker cannot run containers: it has no Python package `docker`."
            " Install it: pip install docker"
        ) from error
    environment = {**os.environ, "DOCKER_HOST": host} if host else dict(os.environ)
    try:
        return docker.from_env(
            environment=environment, timeout=_SECONDS, max_pool_size=_CONNECTIONS
        )
    except (DockerException, OSError) as error:
        where = environment.get("DOCKER_HOST") or "the default socket"
        raise SetupFailed(
            f"No container engine answers at {where}: {error}. Start it on this machine"
            " (`systemctl start docker`), or tell the worker where it is: DOCKER_HOST or its"
            " setting container_host."
        ) from error


@contextmanager
def explained(step: str) -> Iterator[None]:
    """Turns the engine's words into `SetupFailed` and `DiskFull`."""
    from docker.errors import APIError, DockerException

    try:
        yield
    except (DockerException, OSError) as error:
        said = str(error.explanation or error) if isinstance(error, APIError) else str(error)
        _refuse_full_disk(said, step)
        raise SetupFailed(f"Cannot {step}: {said}.") from error


def kind_of(client: "DockerClient") -> Kind:
    """Raises `SetupFailed`."""
    with explained("ask the container engine what it is"):
        told, options = client.version(), client.info().get("SecurityOptions") or ()
    versions = {part.get("Name"): part.get("Version", "") for part in told.get("Components") or ()}
    podman = tuple(map(int, re.findall(r"\d+", versions.get("Podman Engine", ""))[:3]))
    own_users = any(option.partition(",")[0] in _OTHER_USERS for option in options)
    return Kind(podman, own_users)


def facts_of(image: "EngineImage") -> ImageFacts:
    """By the digest of its registry, if it came from one."""
    config, digests = image.attrs["Config"], image.attrs.get("RepoDigests") or ()
    return ImageFacts(
        next((digest.partition("@")[2] for digest in digests), str(image.id)),
        config.get("Entrypoint") or (),
        config.get("Cmd") or (),
        config.get("WorkingDir") or "/",
    )


def has_user(client: "DockerClient", image: str, uid: int) -> bool:
    """Whether an image names that user, who has a home then. Raises `SetupFailed`."""
    from docker.errors import NotFound

    with explained(f"look into image {image}"):
        container = client.containers.create(image, ["none"])  # which is not started
        try:
            pieces, _ = container.get_archive("/etc/passwd")
            archive = io.BytesIO(b"".join(pieces))
        except NotFound:
            return False
        finally:
            container.remove(v=True, force=True)
    with tarfile.open(fileobj=archive) as tar:
        file = tar.extractfile(tar.next() or "")
        users = file.read().decode(errors="replace") if file else ""
    return str(uid) in {found[1] for found in map(_USER_LINE.match, users.splitlines()) if found}


def pull_if_absent(client: "DockerClient", image: str, log: TextIO, given_up: Event) -> None:
    """Its progress goes to the log. Raises `SetupFailed` and `DiskFull`."""
    from docker.errors import APIError, ImageNotFound

    with explained(f"look for image {image}"), suppress(ImageNotFound):
        client.images.get(image)
        return
    log.write(f"xmcloud: pulling {image}\n")
    log.flush()
    try:
        with explained(f"pull image {image}"):
            for told in client.api.pull(image, stream=True, decode=True):
                if given_up.is_set():
                    return
                if "error" in told:
                    raise APIError(told["error"], explanation=told["error"])
                _tell(told, log)
    except SetupFailed as error:
        raise SetupFailed(
            f"{error} See that its name is right, that this machine reaches the registry, and"
            " that it is logged in there (`docker login`)."
        ) from error


def _tell(told: dict[str, Any], log: TextIO) -> None:
    """What happened, without how far it is."""
    if told.get("status") and not told.get("progressDetail"):
        log.write(": ".join(filter(None, (told.get("id"), told["status"]))) + "\n")
        log.flush()


def network_of(client: "DockerClient") -> str:
    """'bridge' where the engine has one of its own, else that of the host."""
    names = {network.name for network in client.networks.list()}
    return "bridge" if names & _OWN_NETWORKS else HOST


def ensure_network(client: "DockerClient", name: str) -> None:
    """A network that people name resolves the names of the containers in it.

    One call at a time: engines may make two networks of one name.
    """
    from docker.errors import APIError

    if any(network.name == name for network in client.networks.list(names=[name])):
        return
    try:
        client.networks.create(name, driver="bridge", check_duplicate=True)
    except APIError as error:  # another worker was faster
        if error.status_code != _CONFLICT:
            raise


def make_room(client: "DockerClient", plan: ContainerPlan) -> None:
    """Remove a container that an earlier attempt of the job left. Raises `SetupFailed`."""
    from docker.errors import NotFound

    try:
        present = client.containers.get(plan.name)
    except NotFound:
        return
    if job_of(present.labels) != plan.job_id:
        raise SetupFailed(
            f"There is a container named {plan.name} that no attempt of this job left behind."
            f" Remove it: docker rm -f {plan.name}"
        )
    present.remove(v=True, force=True)


def address(host: str) -> str:
    """Of a name, as an engine wants it; as it is where nobody knows it."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host


def _refuse_full_disk(said: str, step: str) -> None:
    if "no space left on device" in said.lower():
        raise DiskFull(f"no space is left to {step}")
