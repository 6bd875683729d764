"""The stand-in for Cloud Build makes real images, and ends as the service does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.standins.cloud_builds import CloudBuilds, archived, build, cloud_builds, gate, printed
from tests.support.clock import ManualClock
from tests.support.engine import DockerEngine
from xmcloud.core.platforms import BuilderState
from xmcloud.local.standins.faults import Plan

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

_ONCE = "RUN cat /proc/sys/kernel/random/uuid >/made"


@pytest.fixture
def environ(docker_engine: DockerEngine) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", **docker_engine.environment}


@pytest.fixture
async def real(
    tmp_path: Path, docker_engine: DockerEngine, environ: dict[str, str]
) -> AsyncIterator[CloudBuilds]:
    registry = docker_engine.registry
    async with cloud_builds(tmp_path, environ=environ, registry=registry) as real:
        yield real


async def test_every_status_is_told_as_it_comes_and_maybe_twice(real: CloudBuilds) -> None:
    name = (await real.builder.submit(await real.build("CMD true"))).name
    await real.until_over(name)
    assert real.statuses(name) == ["QUEUED", "WORKING", "SUCCESS"]
    real.faults.plan = Plan(duplicates=1)
    name = (await real.builder.submit(await real.build("CMD false"))).name
    await real.until_over(name)
    await real.until_told(name, 6)
    assert real.statuses(name) == [s for s in ("QUEUED", "WORKING", "SUCCESS") for _ in range(2)]


@pytest.mark.parametrize("kaniko", [False, True], ids=["docker", "kaniko"])
async def test_what_did_not_change_is_not_made_again(
    real: CloudBuilds, docker_engine: DockerEngine, kaniko: bool
) -> None:
    images = []
    for text in ("first", "second"):
        dockerfile = f"LABEL kaniko={kaniko}\n{_ONCE}\nCOPY text /\nCMD cat /made /text"
        build = await real.build(dockerfile, {"text": text}, kaniko=kaniko)
        job = await real.until_over((await real.builder.submit(build)).name)
        images.append(job.image)
    told = [printed(docker_engine, image) for image in images]
    assert [text.split()[1] for text in told] == [b"first", b"second"]
    assert told[0].split()[0] == told[1].split()[0]


async def test_the_cache_is_fetched_where_the_engine_is_another(
    real: CloudBuilds, docker_engine: DockerEngine
) -> None:
    client, images = docker_engine.client(), []
    for text in ("first", "second"):
        dockerfile = f"LABEL far=1\n{_ONCE}\nCOPY text /\nCMD cat /made"
        build = await real.build(dockerfile, {"text": text}, name="far")
        job = await real.until_over((await real.builder.submit(build)).name)
        images.append(job.image)
        for image in client.images.list(f"{docker_engine.registry}/xmcloud/far"):
            client.images.remove(image.id or "", force=True)
    assert printed(docker_engine, images[0]) == printed(docker_engine, images[1])


async def test_a_build_ends_when_its_time_is_up(
    tmp_path: Path, docker_engine: DockerEngine, environ: dict[str, str]
) -> None:
    clock = ManualClock()
    async with (
        gate() as here,
        cloud_builds(tmp_path, environ=environ, clock=clock) as builds,
    ):
        build = await builds.build(f"{here.wait} && true", timeout_seconds=90)
        name = (await builds.builder.submit(build)).name
        await here.arrived.wait()
        clock.advance(89)
        assert builds.statuses(name) == ["QUEUED", "WORKING"]
        clock.advance(1)
        job = await builds.until_over(name)
        await here.left.wait()
    assert job.state is BuilderState.TIMED_OUT
    assert job.step == f"{here.wait} && true"
    assert job.tail


async def test_one_fails_while_another_goes_on(real: CloudBuilds) -> None:
    async with gate() as here:
        slow = await real.builder.submit(await real.build(here.wait))
        bad = await real.builder.submit(await real.build("RUN false"))
        await here.arrived.wait()
        assert (await real.until_over(bad.name)).state is BuilderState.FAILED
        assert real.statuses(slow.name) == ["QUEUED", "WORKING"]
        here.open()
        assert (await real.until_over(slow.name)).state is BuilderState.SUCCEEDED


async def test_only_so_many_work_at_a_time(
    tmp_path: Path, docker_engine: DockerEngine, environ: dict[str, str]
) -> None:
    registry = docker_engine.registry
    async with (
        gate() as here,
        cloud_builds(tmp_path, environ=environ, registry=registry, at_once=1) as builds,
    ):
        first = await builds.builder.submit(await builds.build(here.wait))
        await here.arrived.wait()
        second = await builds.builder.submit(await builds.build("CMD true", name="other"))
        third = await builds.builder.submit(await builds.build("CMD true", name="third"))
        await builds.until(third.name, "QUEUED")
        assert second.state is BuilderState.WAITING
        await builds.builder.cancel(third.name)
        here.open()
        assert (await builds.until_over(second.name)).state is BuilderState.SUCCEEDED
        assert builds.statuses(third.name) == ["QUEUED", "CANCELLED"]
        assert builds.statuses(first.name)[-1] == "SUCCESS"


async def test_what_still_works_ends_with_the_service(
    tmp_path: Path, docker_engine: DockerEngine, environ: dict[str, str]
) -> None:
    async with gate() as here:
        async with cloud_builds(tmp_path, environ=environ) as builds:
            name = (await builds.builder.submit(await builds.build(here.wait))).name
            await here.arrived.wait()
        await here.left.wait()
    assert builds.statuses(name) == ["QUEUED", "WORKING"]


async def test_the_log_grows_while_it_works(real: CloudBuilds) -> None:
    async with gate() as here:
        build = await real.build(f"RUN echo so far\n{here.wait}")
        name = (await real.builder.submit(build)).name
        await here.arrived.wait()
        await real.until_logged(name, "so far")
        here.open()
        await real.until_over(name)
    assert (await real.log(name)).endswith("DONE\n")


async def test_the_last_lines_have_no_colours(real: CloudBuilds) -> None:
    made = await real.build("RUN echo red >&2 && false")
    job = await real.until_over((await real.builder.submit(made)).name)
    assert "\x1b[91mred" in await real.log(job.name)
    assert "red" in job.tail.splitlines()


async def test_an_image_that_cannot_be_pushed_fails_at_the_push(real: CloudBuilds) -> None:
    for kaniko in (False, True):
        build = await real.build("CMD true", push_image_tag="127.0.0.1:1/a/b:c", kaniko=kaniko)
        job = await real.until_over((await real.builder.submit(build)).name)
        assert (job.state, job.step) == (BuilderState.FAILED, "push")
        assert "connection refused" in job.tail


async def test_a_missing_or_damaged_source_fails_at_the_fetch(real: CloudBuilds) -> None:
    await real.blobs.put(f"content/{'1' * 64}", b"no archive")
    await real.blobs.put(f"content/{'2' * 64}", archived({"../../outside": "no"}))
    for archive in ("0" * 64, "1" * 64, "2" * 64):
        job = await real.until_over((await real.builder.submit(build(archive))).name)
        assert (job.state, job.step) == (BuilderState.FAILED, "fetch the source")
        assert archive in job.message


async def test_a_dockerfile_lies_in_the_archive(real: CloudBuilds) -> None:
    for dockerfile in ("../../etc/passwd", "missing"):
        job = await real.until_over(
            (await real.builder.submit(await real.build("", dockerfile=dockerfile))).name
        )
        assert job.state is BuilderState.FAILED
        assert dockerfile.rpartition("/")[2] in job.tail


async def test_a_dockerfile_may_be_called_anything(real: CloudBuilds) -> None:
    name = "$HOME/-$$ Dockerfile"
    for kaniko in (False, True):
        made = await real.build("", {name: "FROM scratch\nENV A=1"}, dockerfile=name, kaniko=kaniko)
        job = await real.until_over((await real.builder.submit(made)).name)
        assert job.state is BuilderState.SUCCEEDED, job.tail


async def test_a_build_may_break_through_no_fault_of_its_own(real: CloudBuilds) -> None:
    async with gate() as here:
        real.faults.plan = Plan(endings={(made := await real.build(here.wait)).tag: "break"})
        job = await real.until_over((await real.builder.submit(made)).name)
    assert (job.state, job.message) == (BuilderState.BROKEN, "an internal error")
