"""A cloud on this machine: Google's emulators, the stand-ins, a Docker engine and a registry."""

from collections.abc import Iterator

import pytest

from tests.cloud.rehearsal import Rehearsal
from tests.support.engine import DockerEngine
from xmcloud.local.emulators import Installation


@pytest.fixture(scope="session")
def cloud(
    docker_engine: DockerEngine,
    emulator_installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rehearsal]:
    """One for all tests; each has experiments of its own."""
    folder = tmp_path_factory.mktemp("cloud")
    rehearsal = Rehearsal(folder / "home", folder / "cache", docker_engine)
    rehearsal.up()
    yield rehearsal
    rehearsal.close()


@pytest.fixture(autouse=True)
def without_faults(cloud: Rehearsal) -> Iterator[None]:
    yield
    for service in ("vertex", "build"):
        cloud.fault(service)
