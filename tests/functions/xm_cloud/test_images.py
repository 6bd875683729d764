"""Builds that the control plane makes, as a launch script sees them."""

from pathlib import Path

import pytest

from xmcloud import xm
from xmcloud.core.specs import Image
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.executors import Vertex
from xmcloud.xm_cloud.packaging.images import BuildFailed, wait_for_builds
from xmcloud.xm_cloud.packaging.package import package


@pytest.fixture
def build(client: Client, tmp_path: Path) -> str:
    """One that fails."""
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "train.py").touch()
    packageable = xm.python_container(Vertex.Spec(), xm.ModuleName("train"), str(folder))
    [packaged] = package(client, [packageable])
    assert isinstance(packaged.executable, Image)
    assert packaged.executable.build is not None
    return packaged.executable.build


def test_a_failed_build_names_its_step_and_last_lines(client: Client, build: str) -> None:
    said: list[str] = []
    with pytest.raises(BuildFailed) as caught:
        wait_for_builds(client, [build], said.append, now=lambda: 3)
    assert caught.value.step.startswith("step 2/3 RUN pip")
    assert caught.value.lines == ("no such package",)
    assert str(caught.value) == (
        f"The image trainer was not built: it failed at {caught.value.step}: exit code 1. "
        "Correct what it printed last:\n  no such package"
    )
    assert said == [f"image trainer: failed (0 s, build {build})"]


def test_without_builds_there_is_nothing_to_wait_for(client: Client) -> None:
    wait_for_builds(client, [], lambda _: None)
