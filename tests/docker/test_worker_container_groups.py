"""Groups of containers that find each other by address and by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import NotFound

from tests.functions.real_workers import Plane, new_job, opened_plane
from tests.support.engine import DockerEngine
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import NewJob
from xmcloud.core.specs import Argument, Image

pytestmark = pytest.mark.docker

NETWORK = "xmcloud-test"

SERVER = """
import os, socket
listener = socket.create_server(("", int(os.environ["XMCLOUD_PORT"])))
for _ in range(2):
    connection, _ = listener.accept()
    connection.sendall(b"hello")
    connection.close()
"""
CLIENT = """
import os, socket, sys, time
address = sys.argv[1]
own = f"{os.environ['XMCLOUD_EXPERIMENT_ID']}_{os.environ['XMCLOUD_UNIT']}_server"
for host in (address.split(":")[0], own):
    while True:
        try:
            connection = socket.create_connection((host, int(address.split(":")[1])))
            break
        except (ConnectionRefusedError, socket.gaierror):  # it may not be there yet
            time.sleep(0.02)
    print(connection.recv(100).decode())
    connection.close()
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with opened_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def network(docker_engine: DockerEngine) -> Iterator[str]:
    """The name of a bridge network that a worker makes."""
    yield NETWORK
    docker_engine.client().networks.get(NETWORK).remove()


def pair(engine: DockerEngine) -> tuple[NewJob, NewJob]:
    def python(code: str) -> Image:
        return Image(image=engine.base_image, command=("python3", "-c", code))

    address = Argument(value="%objectname(server)%")
    return (
        new_job("server", python(SERVER)),
        new_job("client", python(CLIENT), arguments=(address,)),
    )


def both_said_hello(plane: Plane, server: Job, client: Job) -> None:
    assert plane.over(client).state is JobState.COMPLETED
    assert plane.over(server).state is JobState.COMPLETED
    assert plane.log(client) == "hello\nhello\n"


def test_on_the_network_of_the_host(plane: Plane, docker_engine: DockerEngine) -> None:
    jobs = plane.launch(*pair(docker_engine))
    with plane.worker(environment=docker_engine.environment, slots=2):
        both_said_hello(plane, *jobs)


def test_on_two_workers(plane: Plane, docker_engine: DockerEngine) -> None:
    jobs = plane.launch(*pair(docker_engine))
    environment = docker_engine.environment
    with plane.worker("ant", environment), plane.worker("bee", environment):
        both_said_hello(plane, *jobs)


def test_on_a_network_of_their_own(plane: Plane, docker_engine: DockerEngine, network: str) -> None:
    with pytest.raises(NotFound):
        docker_engine.client().networks.get(network)
    environment = {**docker_engine.environment, "XMCLOUD_WORKER_CONTAINER_NETWORK": network}
    jobs = plane.launch(*pair(docker_engine))
    with plane.worker(environment=environment, slots=2):
        both_said_hello(plane, *jobs)
