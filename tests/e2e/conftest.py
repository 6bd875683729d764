"""Control planes in homes of their own; the emulators are started once a session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Stack, Trace
from xmcloud.local.emulators import Installation

BOTH = ["embedded", pytest.param("emulators", marks=pytest.mark.emulator)]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environments of jobs, which any stack may use."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def embedded(tmp_path: Path, cache: Path) -> Iterator[Stack]:
    """On SQLite and files; nothing is started yet."""
    stack = Stack(tmp_path / "home", cache)
    yield stack
    stack.close()


@pytest.fixture(scope="session")
def shared_emulators(
    emulator_installation: Installation, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("on-emulators") / "home", cache, emulators=True)
    yield stack
    stack.close()


@pytest.fixture
def on_emulators(shared_emulators: Stack) -> Iterator[Stack]:
    """On Google's emulators, without a control plane and a worker yet."""
    yield shared_emulators
    shared_emulators.stop_workers()
    if "control-plane" in shared_emulators.records():
        for experiment in shared_emulators.json("list")["experiments"]:
            if set(experiment["states"]) & {"queued", "starting", "running"}:
                shared_emulators("stop", experiment["experiment"]["id"])
    shared_emulators.stop_parts("worker")
    shared_emulators.stop_parts("control-plane")


@pytest.fixture(params=BOTH)
def stack(request: pytest.FixtureRequest) -> Stack:
    """On either; nothing but emulators is started yet."""
    name = "on_emulators" if request.param == "emulators" else "embedded"
    chosen: Stack = request.getfixturevalue(name)
    return chosen


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    folder = tmp_path / "jobs"
    folder.mkdir()
    return Trace(folder)


def services_are_required() -> bool:
    return os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1"
