"""Containers on a Docker Engine, and the choice of what runs them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.engine import DockerEngine
from xmcloud.local.standins.containers import (
    CannotRun,
    Container,
    DockerContainers,
    Processes,
    Runner,
    local_runner,
)

pytestmark = pytest.mark.anyio
SECONDS = 60.0


@pytest.fixture
async def docker(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> AsyncIterator[Runner]:
    for name, value in docker_engine.environment.items():
        monkeypatch.setenv(name, value)
    async with local_runner() as runner:
        assert isinstance(runner, DockerContainers)
        yield runner


def container(engine: DockerEngine, folder: Path, *args: str, image: str = "") -> Container:
    return Container(
        name=f"containers-{secrets.token_hex(8)}",
        image=image or engine.base_image,
        command=("/bin/sh", "-c"),
        args=args,
        environment={"A": "1"},
        folders={"/gcs/data": folder},
        log=folder / "log",
    )


async def test_without_an_engine_containers_are_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    async with local_runner() as runner:
        assert isinstance(runner, Processes)


@pytest.mark.docker
async def test_a_container_has_its_argv_environment_and_folders(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    script = 'echo "$A $0 $1"; echo kept > /gcs/data/file; exit 3'
    one = container(docker_engine, tmp_path, script, "a  b", "$A")
    running = await docker.start(one)
    assert await running.ended() == 3
    assert one.log.read_text() == "1 a  b $A\n"
    assert (tmp_path / "file").read_text() == "kept\n"
    assert names(docker_engine, one) == []


@pytest.mark.docker
async def test_the_images_own_command_runs_where_none_is_given(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    plain = replace(container(docker_engine, tmp_path), command=())
    assert await (await docker.start(plain)).ended() == 0


@pytest.mark.docker
async def test_a_container_is_stopped_and_removed(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; sleep 100 & wait"
    one = container(docker_engine, tmp_path, script)
    running = await docker.start(one)
    async with asyncio.timeout(SECONDS):
        while True:
            if written(one) == "up\n":
                break
            await asyncio.sleep(0.02)
    await running.stop(10)
    assert await running.ended() == 0
    assert one.log.read_text() == "up\nbye\n"
    assert names(docker_engine, one) == []


@pytest.mark.docker
async def test_a_start_that_is_given_up_leaves_nothing(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    one = container(docker_engine, tmp_path, "sleep 100")
    starting = asyncio.create_task(docker.start(one))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert names(docker_engine, one) == []


@pytest.mark.docker
@pytest.mark.parametrize("image", ["127.0.0.1:1/no-such", "no such image"])
async def test_an_image_that_is_not_there_says_so(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path, image: str
) -> None:
    with pytest.raises(CannotRun, match=image):
        await docker.start(container(docker_engine, tmp_path, "true", image=image))


@pytest.mark.docker
async def test_a_command_that_is_not_there_says_so(
    docker: Runner, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    one = replace(container(docker_engine, tmp_path), command=("/no-such",))
    with pytest.raises(CannotRun, match="/no-such"):
        await docker.start(one)
    assert names(docker_engine, one) == []


def names(engine: DockerEngine, container: Container) -> list[str]:
    """Of the containers that the engine has of it."""
    found = engine.client().containers.list(all=True, filters={"name": container.name})
    return [str(one.name) for one in found]


def written(container: Container) -> str:
    return container.log.read_text() if container.log.exists() else ""
