"""A small real workspace that Bazel builds without a network, and one server for all tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bazel.workspace import require_bazel, write_workspace
from xmcloud import xm


@pytest.fixture(scope="session")
def built_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The workspace; skips where Bazel is missing, unless services are required."""
    require_bazel()
    folder = tmp_path_factory.mktemp("bazel")
    workspace = folder / "workspace"
    write_workspace(workspace, output=folder / "output")
    yield workspace
    subprocess.run(["bazel", "shutdown"], cwd=workspace, check=True, capture_output=True)
    # Bazel takes the right to write from what it builds, and pytest could not remove it.
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)


@pytest.fixture
def workspace(built_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The workspace while a launch script runs that lies in its folder `pkg`."""
    monkeypatch.delenv("BUILD_WORKSPACE_DIRECTORY", raising=False)
    with xm.launch_script_folder(built_workspace / "pkg"):
        yield built_workspace
