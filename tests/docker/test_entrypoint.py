"""The entrypoint of images as the first process of a container."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.attempt_api import AttemptApi, attempt_api
from tests.support.build_service import MemoryBuildService
from tests.support.engine import DockerEngine
from xmcloud import xm
from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.specs import Image
from xmcloud.xm_cloud.executors import Local
from xmcloud.xm_cloud.packaging.package import package

pytestmark = pytest.mark.docker


@pytest.fixture
def api() -> Iterator[AttemptApi]:
    with attempt_api("/tmp") as api:
        yield api


@pytest.fixture
def image(docker_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs its arguments as shell code."""
    for name, value in docker_engine.environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "shell"
    folder.mkdir()
    (folder / "random.py").write_text("raise SystemExit('shadows the standard library')\n")
    spec = xm.PythonContainer(
        xm.CommandList(['bash -c "$1"']), str(folder), docker_engine.base_image
    )
    [packaged] = package(MemoryBuildService(), [xm.Packageable(spec, Local.Spec())])
    assert isinstance(packaged.executable, Image)
    return packaged.executable.image


def test_it_buries_the_orphans(docker_engine: DockerEngine, api: AttemptApi, image: str) -> None:
    orphans = "for n in 1 2 3; do (true & exec true); done; (setsid true &)"
    zombies = "grep -ls '^State:.Z' /proc/[0-9]*/status | wc -l"
    buried = f"for n in {{1..500}}; do [ $({zombies}) = 0 ] && break; sleep 0.02; done"
    printed = docker_engine.client().containers.run(
        image,
        [f"{orphans}; {buried}; {zombies}"],
        environment={**api.environment, "PYTHONPATH": "/shell"},
        network_mode="host",
        remove=True,
    )
    assert printed == b"0\n" == api.log
    assert api.end.outcome is Outcome.COMPLETED


def test_a_container_that_is_stopped_tells_of_it(
    docker_engine: DockerEngine, api: AttemptApi, image: str
) -> None:
    container = docker_engine.client().containers.run(
        image,
        ["echo on; sleep 60"],
        environment=api.environment,
        network_mode="host",
        detach=True,
    )
    api.wait_for(lambda: api.log == b"on\n")
    container.stop(timeout=30)
    assert container.wait()["StatusCode"] == 143
    assert (api.end.outcome, api.end.reason.code) == (Outcome.RELEASED, ReasonCode.PREEMPTED)
