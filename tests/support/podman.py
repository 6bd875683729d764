"""A private Podman that speaks Docker's protocol."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from docker import DockerClient

from tests.support.base_image import base_tarball, cache_folder
from tests.support.engine import remove_with_mounts
from tests.support.servers import running

# Without systemd, and without the right to have more open files than there are now.
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
IMAGE = "localhost/xmcloud-base:podman"
_PACKAGES = {"podman": "podman", "conmon": "podman", "runc": "runc", "mmdebstrap": "mmdebstrap"}


def missing_for_podman() -> list[str]:
    """What is not here, each with how to get it."""
    missing = [
        f"{program}: apt-get install {package}"
        for program, package in _PACKAGES.items()
        if shutil.which(program) is None
    ]
    if os.geteuid() != 0:
        missing.append("the right to start Podman with a storage of its own: run as root")
    return missing


@contextmanager
def running_podman() -> Iterator[str]:
    """Its address, unix:///PATH; it has the base image, and the network of its host alone."""
    # Sockets have short names: a test's own folder may be too deep.
    folder = Path(tempfile.mkdtemp(prefix="xmp-"))
    try:
        storage = folder / "r"
        storage.mkdir()
        # In memory, where it is made and gone sooner than on disk.
        subprocess.run(["mount", "-t", "tmpfs", "xmcloud-test", str(storage)], check=True)
        (folder / "containers.conf").write_text(_SETTINGS, encoding="utf-8")
        socket = folder / "p.sock"
        environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
        argv = ["setpriv", "--pdeathsig", "TERM", "podman", "--root", str(storage)]
        argv += ["--runroot", str(folder / "rr"), "--tmpdir", str(folder / "t")]
        argv += ["system", "service", "--time", "0", f"unix://{socket}"]
        with running(argv, folder / "podman.log", environment, folder) as server:
            server.ready(socket.exists)
            with closing(DockerClient(f"unix://{socket}")) as client:
                _add_base_image(client)
                yield f"unix://{socket}"
                for container in client.containers.list(all=True):
                    container.remove(force=True)
            server.stop()
    finally:
        remove_with_mounts(folder)


def _add_base_image(client: DockerClient) -> None:
    told = client.api.import_image_from_file(str(base_tarball(cache_folder(os.environ))))
    client.images.get(json.loads(told.splitlines()[0])["id"]).tag(*IMAGE.rsplit(":", 1))
