"""How a container of a launch script runs on this machine."""

import os
from collections.abc import Sequence

from xmcloud.core import specs
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.executors import DockerOptions

GCS = "/gcs"
"""Where a container sees Cloud Storage."""


def container_options(options: DockerOptions | None, home: str) -> specs.ContainerOptions:
    """For a container on this machine, where `home` is the user's. Raises `InvalidInput`."""
    options = options or DockerOptions()
    volumes = dict(_absolute(pair) for pair in (options.volumes or {}).items())
    if options.mount_gcs_path and GCS not in volumes.values():
        volumes = {**_cloud_storage(home), **volumes}
    return specs.ContainerOptions(
        ports={_port(inside): _port(outside) for inside, outside in (options.ports or {}).items()},
        volumes=volumes,
        interactive=options.interactive,
    )


def _cloud_storage(home: str) -> dict[str, str]:
    folder = os.path.join(home, "gcs")
    return {folder: GCS} if os.path.isdir(folder) else {}


def _port(port: int | str) -> int:
    """Also as Docker writes it: `8080/tcp`."""
    text = str(port).removesuffix("/tcp")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise InvalidInput("docker_options.ports", port, "a number from 1 to 65535")
    return int(text)


def _absolute(paths: Sequence[str]) -> tuple[str, str]:
    host, container = paths
    if not host.startswith("/"):
        remedy = f"an absolute path, such as os.path.abspath({host!r})"
        raise InvalidInput("docker_options.volumes", host, remedy)
    if not container.startswith("/"):
        raise InvalidInput(f"docker_options.volumes[{host!r}]", container, "an absolute path")
    return host, container
