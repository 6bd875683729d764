"""What several kinds of test share; services are started once a session."""

import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.engine import DockerEngine, missing_for_engine, running_engine
from xmcloud.local.emulators import (
    EmulatorAddresses,
    Installation,
    MissingEmulators,
    find_installation,
    start_emulators,
)
from xmcloud.local.processes import Processes, members


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:
    """For all tests: gRPC calls back into the loop of a channel for a while after its end."""
    yield  # noqa: PT022 - a fixture that ended would end the loop


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB; skips where one may not be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "xmcloud-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system of its own: needs the right to mount (root)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture(scope="session")
def emulator_installation() -> Installation:
    """The emulators' programs; skips where they are missing, unless services are required."""
    try:
        return find_installation(os.environ)
    except MissingEmulators as error:
        missing = error
    if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
        pytest.fail(str(missing), pytrace=False)
    pytest.skip("; ".join(f"{piece.what}: {piece.how}" for piece in missing.missing))


@pytest.fixture(scope="session")
def emulators(
    emulator_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatorAddresses]:
    """Running Firestore, Pub/Sub and Cloud Storage emulators."""
    processes = Processes(tmp_path_factory.mktemp("emulators"))
    try:
        addresses = start_emulators(processes, emulator_installation, random_project())
        records = processes.records()
        warm_up(addresses)
        yield addresses
    finally:
        processes.stop(grace_seconds=10)
    assert [process for record in records for process in members(record)] == []


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A Docker engine of its own; skips where one cannot be, unless services are required."""
    if missing := missing_for_engine():
        how = f"a Docker engine: {'; '.join(missing)}"
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(how, pytrace=False)
        pytest.skip(how)
    with running_engine() as engine:
        yield engine


@pytest.fixture
def gcp_project(emulators: EmulatorAddresses, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project of its own for each test, with Google's clients turned to the emulators."""
    project = random_project()
    mine = emulators.model_copy(update={"project": project})
    for name, value in mine.environment().items():
        monkeypatch.setenv(name, value)
    return project


def random_project() -> str:
    return f"test-{secrets.token_hex(8)}"


def warm_up(addresses: EmulatorAddresses) -> None:
    """Have the Firestore emulator compile what the tests use: its first calls are slow."""
    from google.cloud import firestore

    with pytest.MonkeyPatch.context() as patch:
        for name, value in addresses.environment().items():
            patch.setenv(name, value)
        client = firestore.Client(project=addresses.project)
        warm = client.collection("warm")
        for number in range(50):
            warm.document(str(number)).set({"number": number})
        list(warm.where(filter=firestore.FieldFilter("number", ">", 25)).stream())
        client.close()
