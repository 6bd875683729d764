"""What every `Builder` promises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.standins.cloud_builds import CloudBuilds, build, builder_at, cloud_builds, gate, printed
from tests.support.engine import DockerEngine
from xmcloud.core.errors import Unavailable
from xmcloud.core.platforms import BuilderState, PlatformRefused, QuotaExceeded
from xmcloud.local.standins.faults import Plan

pytestmark = pytest.mark.anyio


@pytest.fixture
async def held(tmp_path: Path, anyio_backend: str) -> AsyncIterator[CloudBuilds]:
    """Builds wait and do not start."""
    async with cloud_builds(tmp_path) as held:
        held.faults.plan = Plan(hold=True)
        yield held


@pytest.fixture
async def real(
    tmp_path: Path, docker_engine: DockerEngine, anyio_backend: str
) -> AsyncIterator[CloudBuilds]:
    """Builds become images."""
    environ, registry = {"PATH": "/usr/bin:/bin", **docker_engine.environment}, docker_engine
    async with cloud_builds(tmp_path, environ=environ, registry=registry.registry) as real:
        yield real


async def test_what_was_submitted_is_found_by_its_try_and_by_its_name(held: CloudBuilds) -> None:
    first, second = build(), build(tries=2)
    job = await held.builder.submit(first)
    assert job.state is BuilderState.WAITING
    assert job.url
    assert await held.builder.get(job.name) == job
    assert await held.builder.find(first) == job
    assert await held.builder.find(second) is None
    assert await held.builder.find(build(name="other")) is None


async def test_of_two_submissions_the_first_is_found(held: CloudBuilds) -> None:
    jobs = [await held.builder.submit(build()) for _ in range(3)]
    assert await held.builder.find(build()) == jobs[0]


async def test_what_is_not_there_is_not_found_and_not_cancelled(held: CloudBuilds) -> None:
    name = (await held.builder.submit(build())).name
    for other in (f"{name}x", "nonsense", ""):
        assert await held.builder.get(other) is None
        await held.builder.cancel(other)


async def test_a_build_that_waits_can_be_cancelled_and_again(held: CloudBuilds) -> None:
    name = (await held.builder.submit(build())).name
    for _ in range(2):
        await held.builder.cancel(name)
        job = await held.builder.get(name)
        assert job is not None
        assert job.state is BuilderState.CANCELLED


async def test_refusals_are_told_apart(held: CloudBuilds) -> None:
    held.faults.plan = Plan(quota=1, hold=True)
    with pytest.raises(QuotaExceeded, match="Quota exceeded"):
        await held.builder.submit(build())
    held.faults.plan = Plan(refuse=1, hold=True)
    with pytest.raises(PlatformRefused, match="quota restrictions"):
        await held.builder.submit(build())
    with pytest.raises(PlatformRefused, match="image name"):
        await held.builder.submit(build(push_image_tag="Not An Image"))
    assert await held.builder.find(build()) is None


async def test_a_submission_that_failed_may_have_taken_effect(held: CloudBuilds) -> None:
    held.faults.plan = Plan(fail_before=1, hold=True)
    with pytest.raises(Unavailable):
        await held.builder.submit(build())
    assert await held.builder.find(build()) is None
    held.faults.plan = Plan(fail_after=1, hold=True)
    with pytest.raises(Unavailable):
        await held.builder.submit(build())
    job = await held.builder.find(build())
    assert job is not None
    assert job.state is BuilderState.WAITING


async def test_a_service_that_stumbles_is_asked_again(held: CloudBuilds) -> None:
    name = (await held.builder.submit(build())).name
    held.faults.plan = Plan(unavailable=2, hold=True)
    assert await held.builder.get(name) is not None
    held.faults.plan = Plan(unavailable=2, hold=True)
    assert await held.builder.find(build()) is not None
    held.faults.plan = Plan(unavailable=2, hold=True)
    await held.builder.cancel(name)
    assert held.statuses(name)[-1] == "CANCELLED"


async def test_a_service_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    async with cloud_builds(tmp_path) as gone:
        name = f"projects/p/locations/global/builds/{'0' * 8}"
    builder = builder_at(gone.address, gone.blobs, deadline=0.2)
    with pytest.raises(Unavailable):
        await builder.submit(build())
    with pytest.raises(Unavailable):
        await builder.find(build())
    with pytest.raises(Unavailable):
        await builder.get(name)
    with pytest.raises(Unavailable):
        await builder.cancel(name)
    await builder.close()


async def test_only_events_of_our_builds_name_one(held: CloudBuilds) -> None:
    name = (await held.builder.submit(build())).name
    await held.until(name, "QUEUED")
    event = held.events[0]
    assert held.builder.event(event) == name
    for other in (
        "",
        "not json",
        "[]",
        "{}",
        event.replace("xmcloud-", "somebody-"),
        event.replace("my-project", "another"),
    ):
        assert held.builder.event(other) is None


async def test_each_region_has_builds_of_its_own(held: CloudBuilds) -> None:
    there = builder_at(held.address, held.blobs, location="europe-west1")
    job = await there.submit(build())
    assert "/locations/europe-west1/" in job.name
    assert await there.find(build()) == job
    assert await held.builder.find(build()) is None
    # A name tells where it is, whoever asks.
    assert await held.builder.get(job.name) == job
    await held.builder.cancel(job.name)
    await held.until(job.name, "CANCELLED")
    assert {held.builder.event(event) for event in held.events} == {job.name}
    await there.close()


@pytest.mark.docker
@pytest.mark.parametrize("kaniko", [False, True], ids=["docker", "kaniko"])
async def test_a_build_becomes_an_image_that_is_pulled_by_its_digest(
    real: CloudBuilds, docker_engine: DockerEngine, kaniko: bool
) -> None:
    build = await real.build(
        "COPY greeting /\nCMD cat /greeting", {"greeting": "hi"}, kaniko=kaniko
    )
    job = await real.until_over((await real.builder.submit(build)).name)
    assert job.state is BuilderState.SUCCEEDED, await real.log(job.name)
    repository, _, digest = job.image.partition("@")
    assert repository == f"{docker_engine.registry}/xmcloud/train"
    assert digest.startswith("sha256:")
    client = docker_engine.client()
    client.images.remove(f"{repository}:{build.id}", force=True)
    client.images.pull(job.image)
    assert printed(docker_engine, job.image) == b"hi"
    assert await real.builder.find(build) == job


@pytest.mark.docker
async def test_an_image_goes_where_it_is_wanted(
    real: CloudBuilds, docker_engine: DockerEngine
) -> None:
    wanted = f"{docker_engine.registry}/elsewhere/mine"
    for tag in (f"{wanted}:v1", wanted):
        build = await real.build("CMD true", push_image_tag=tag)
        job = await real.until_over((await real.builder.submit(build)).name)
        assert job.image.startswith(f"{wanted}@sha256:")


@pytest.mark.docker
@pytest.mark.parametrize("kaniko", [False, True], ids=["docker", "kaniko"])
async def test_a_build_that_fails_names_the_step_and_the_last_lines(
    real: CloudBuilds, kaniko: bool
) -> None:
    bad = "RUN seq 100 && echo no such thing && exit 3"
    build = await real.build(f"ENV A=1\n{bad}\nENV B=2", kaniko=kaniko)
    job = await real.until_over((await real.builder.submit(build)).name)
    assert job.state is BuilderState.FAILED
    assert job.step == bad
    assert job.image == ""
    assert "no such thing" in job.tail.splitlines()
    assert 10 < len(job.tail.splitlines()) <= 40
    assert "non-zero status" in job.message


@pytest.mark.docker
async def test_the_work_of_a_build_ends_with_its_cancellation(real: CloudBuilds) -> None:
    async with gate() as here:
        build = await real.build(here.wait)
        name = (await real.builder.submit(build)).name
        await here.arrived.wait()
        working = await real.builder.get(name)
        assert working is not None
        assert working.state is BuilderState.WORKING
        await real.builder.cancel(name)
        await here.left.wait()
    job = await real.builder.find(build)
    assert job is not None
    assert (job.state, job.image) == (BuilderState.CANCELLED, "")
