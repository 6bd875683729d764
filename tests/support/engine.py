"""A private Docker engine, a registry and a base image; as a program it starts them by hand."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.base_image import SUITE, base_tarball, cache_folder
from tests.support.pip_settings import CERTIFICATES, pip_files, pip_settings, shelf
from tests.support.registry import running_registry
from tests.support.servers import running

if TYPE_CHECKING:
    from docker import DockerClient

BASE_IMAGE = f"xmcloud-base:{SUITE}"
_PACKAGES = {
    "dockerd": "docker.io",
    "docker-registry": "docker-registry",
    "mmdebstrap": "mmdebstrap",
}
_PLAIN_IMAGE = "xmcloud-plain"
_DOCKERFILE = f"""\
FROM {_PLAIN_IMAGE}:{SUITE}
COPY files /
ENV SSL_CERT_FILE={CERTIFICATES}
CMD ["bash"]
"""


@dataclass(frozen=True)
class DockerEngine:
    """A running engine; builds and runs in it need the network "host", as it has no bridge."""

    host: str
    """Its address, unix:///PATH."""
    registry: str
    """The address of its registry, HOST:PORT."""
    environment: Mapping[str, str]
    """Turns the docker program and `docker.from_env` to this engine."""
    base_image: str
    """Debian with python3, pip and venv, in which pip is set as on this machine."""
    _clients: ExitStack

    def client(self) -> "DockerClient":
        """A client of its own, closed with the engine."""
        from docker import DockerClient

        return self._clients.enter_context(closing(DockerClient(self.host)))

    def push(self, image: str, name: str) -> str:
        """Push a local image as REGISTRY/name; returns it by digest, REGISTRY/name@sha256:.."""
        client, repository = self.client(), f"{self.registry}/{name}"
        client.images.get(image).tag(repository, "latest")
        for line in client.images.push(repository, "latest", stream=True, decode=True):
            assert "error" not in line, line
            if digest := line.get("aux", {}).get("Digest"):
                return f"{repository}@{digest}"
        raise AssertionError(f"the push of {repository} told no digest")


def missing_for_engine() -> list[str]:
    """What is not here, each with how to get it."""
    missing = [
        f"{program}: apt-get install {package}"
        for program, package in _PACKAGES.items()
        if shutil.which(program) is None
    ]
    if os.geteuid() != 0:
        missing.append("the right to start a Docker engine: run as root")
    return missing


@contextmanager
def running_engine() -> Iterator[DockerEngine]:
    """An engine, a registry and the base image in both; all its containers end with it."""
    with ExitStack() as stack:
        # Sockets have short names: a test's own folder may be too deep.
        folder = Path(tempfile.mkdtemp(prefix="xme-"))
        stack.callback(remove_with_mounts, folder)
        for name in ("registry", "shelf", "config"):
            (folder / name).mkdir()
        registry = stack.enter_context(running_registry(folder / "registry"))
        address = stack.enter_context(shelf(folder / "shelf"))
        host = stack.enter_context(_running_dockerd(folder))
        environment = {"DOCKER_HOST": host, "DOCKER_CONFIG": str(folder / "config")}
        clients = stack.enter_context(ExitStack())
        engine = DockerEngine(host, registry, environment, BASE_IMAGE, clients)
        stack.callback(_remove_containers, engine)
        _make_base_image(engine, folder, pip_files(pip_settings(), folder / "shelf", address))
        yield engine


@contextmanager
def _running_dockerd(folder: Path) -> Iterator[str]:
    socket = folder / "d.sock"
    argv = ["setpriv", "--pdeathsig", "TERM", "dockerd", "--iptables=false", "--bridge=none"]
    argv += ["--data-root", str(folder / "d"), "--exec-root", str(folder / "e")]
    argv += ["--host", f"unix://{socket}", "--pidfile", str(folder / "pid")]
    with running(argv, folder / "dockerd.log", os.environ, folder) as server:
        server.ready(lambda: "API listen on" in server.output)
        yield f"unix://{socket}"
        server.stop()


def _make_base_image(engine: DockerEngine, folder: Path, files: Mapping[str, bytes]) -> None:
    client = engine.client()
    told = client.api.import_image_from_file(str(_tarball(folder)), _PLAIN_IMAGE, SUITE)
    assert '"error"' not in told, told
    context = BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        named = {f"files/{name}": content for name, content in files.items()}
        for name, content in {"Dockerfile": _DOCKERFILE.encode(), **named}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, BytesIO(content))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=engine.base_image)


def _tarball(folder: Path) -> Path:
    try:
        return base_tarball(cache_folder(os.environ))
    except OSError:  # no cache where home cannot be written
        return base_tarball(folder)


def _remove_containers(engine: DockerEngine) -> None:
    from docker.errors import NotFound

    for container in engine.client().containers.list(all=True, ignore_removed=True):
        with suppress(NotFound):  # the engine itself just removed what a cancelled build left
            container.remove(force=True)


def remove_with_mounts(folder: Path) -> None:
    """A folder in which an engine may have left file systems mounted."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(folder)]):
        subprocess.run(["umount", "--lazy", mount], check=True)
    shutil.rmtree(folder)


def main() -> None:
    """Start an engine and tell how to reach it; it runs until Ctrl-C or the end of the input."""
    with running_engine() as engine:
        for name, value in engine.environment.items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.write(f"# registry {engine.registry}, base image {engine.base_image}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
