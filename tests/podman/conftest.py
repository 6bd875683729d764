"""Each test here runs with Docker and with Podman."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest
from docker import DockerClient

from tests.podman.engines import Engine
from tests.support.engine import DockerEngine
from tests.support.podman import IMAGE, missing_for_podman, running_podman


@pytest.fixture(scope="session")
def podman() -> Iterator[str]:
    """The address of a Podman of its own; skips where none can be, unless services are required."""
    if missing := missing_for_podman():
        how = f"Podman: {'; '.join(missing)}"
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(how, pytrace=False)
        pytest.skip(how)
    with running_podman() as host:
        yield host


@pytest.fixture(scope="session", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "docker":
        docker: DockerEngine = request.getfixturevalue("docker_engine")
        host, image = docker.host, docker.base_image
    else:
        host, image = request.getfixturevalue("podman"), IMAGE
    with closing(DockerClient(host)) as client:
        earlier = frozenset(str(each.id) for each in client.containers.list(all=True))
        yield Engine(request.param, host, image, client, earlier)
