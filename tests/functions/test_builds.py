"""Images that are made for jobs, and jobs that wait for them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.functions.groups import add, ask, now, states
from tests.support.builder import MemoryBuilder
from tests.support.builders import DIGEST
from tests.support.clock import ManualClock
from tests.support.recording import RecordedStore, Recording
from xmcloud.core.builds import SUBMITTING, Build, BuildState
from xmcloud.core.control.builds import LOOK_AGAIN, build_event
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Experiment, Job, JobState, ReasonCode
from xmcloud.core.platforms import BuilderState
from xmcloud.core.ports import Subscription
from xmcloud.core.protocol import Acted, Builds, NewJob
from xmcloud.core.specs import Image

pytestmark = pytest.mark.anyio

PERMITS = Subscription("queue-default", "local")
IMAGE = "registry.example/train@sha256:1"
SPEC = {"archive": DIGEST, "name": "train"}
DRAFT, BUILDING, QUEUED, FAILED, STOPPED = (
    JobState.DRAFT,
    JobState.BUILDING,
    JobState.QUEUED,
    JobState.FAILED,
    JobState.STOPPED,
)


class Killed(BaseException):
    """The process of the control plane ends."""


@dataclass
class Yard:
    """A control plane whose builder does as it is told."""

    api: Api
    builder: MemoryBuilder
    recording: Recording

    async def build(self, **spec: Any) -> Build:
        return await self.api.post(Build, "/builds", {"spec": {**SPEC, **spec}}, 201)

    async def now(self, build: Build) -> Build:
        return await self.api.get(Build, f"/builds/{build.id}")

    async def becomes(self, build: Build, state: BuilderState, **told: str) -> Build:
        """The build after the event that tells of it."""
        event = self.builder.becomes((await self.now(build)).remote, state, **told)
        await build_event(self.api.plane, event)
        return await self.now(build)

    async def later(self, time: timedelta) -> None:
        self.api.clock.advance(time)
        await sweep(self.api.plane)

    async def permits(self) -> set[str]:
        found = await self.api.plane.queue.pull([PERMITS], 500, 0)
        return {each.message.body for each in found}


@pytest.fixture
async def yard(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Yard]:
    clock, signals = ManualClock(), HeardSignals()
    builder, recording = MemoryBuilder(), Recording()
    plane = sqlite_plane(tmp_path, clock, signals)
    store = RecordedStore(plane.store, recording)
    plane = replace(plane, store=store, builder=builder)
    async with opened_api(plane, clock, signals, tmp_path) as api:
        await plane.queue.subscribe([PERMITS])
        yield Yard(api, builder, recording)


def needing(build: Build, name: str = "train", queue: str | None = "default") -> NewJob:
    return new_job(name, queue, executable={"kind": "image", "build": build.id})


async def test_one_build_serves_two_hundred_units(yard: Yard) -> None:
    build = await yard.build()
    assert (build.state, build.tries) == (BuildState.WORKING, 1)
    assert build.url.startswith("https://")
    jobs = await add(yard.api, *[[needing(build)] for _ in range(200)])
    assert {job.state for job in jobs} == {BUILDING}
    assert await yard.permits() == set()
    done = await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
    assert (done.state, done.image) == (BuildState.BUILT, IMAGE)
    found = await now(yard.api, jobs)
    assert {(job.state, job.reason.code) for job in found} == {(QUEUED, ReasonCode.BUILT)}
    assert {
        job.spec.executable.image for job in found if isinstance(job.spec.executable, Image)
    } == {IMAGE}
    assert await yard.permits() == {job.id for job in jobs}
    assert len(yard.builder.tags) == 1


async def test_the_same_content_is_built_once(yard: Yard) -> None:
    first, again, other = await yard.build(), await yard.build(), await yard.build(name="other")
    assert first == again
    assert other.id != first.id
    assert len(yard.builder.tags) == 2
    await yard.becomes(first, BuilderState.SUCCEEDED, image=IMAGE)
    assert (await yard.build()).state is BuildState.BUILT
    assert len(yard.builder.tags) == 2
    listed = (await yard.api.get(Builds, "/builds")).builds
    assert {build.id for build in listed} == {first.id, other.id}


async def test_who_comes_after_the_build_has_its_image_at_once(yard: Yard) -> None:
    build = await yard.build()
    await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
    waiting, draft = await add(yard.api, [needing(build)], [needing(build, queue=None)])
    assert (waiting.state, draft.state) == (QUEUED, DRAFT)
    assert await yard.permits() == {waiting.id}
    for job in (waiting, draft):
        assert isinstance(job.spec.executable, Image)
        assert job.spec.executable.image == IMAGE


async def test_a_draft_from_before_gets_the_image_when_it_is_enqueued(yard: Yard) -> None:
    build = await yard.build()
    one, all_ = await add(yard.api, [needing(build, "one", None)], [needing(build, "all", None)])
    await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
    assert (await yard.api.post(Job, f"/jobs/{one.id}/enqueue")).state is QUEUED
    acted = await yard.api.post(Acted, f"/experiments/{one.experiment_id}/enqueue")
    assert {job.id: job.state for job in acted.jobs} == {all_.id: QUEUED}
    assert await yard.permits() == {one.id, all_.id}


async def test_a_build_that_ends_while_jobs_are_added_lets_them_go(yard: Yard) -> None:
    build = await yard.build()
    experiment = await yard.api.experiment()

    async def ends() -> None:
        await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)

    yard.recording.once("store.commit", ends)
    (job,) = await yard.api.jobs(experiment, needing(build))
    assert (job.state, job.reason.code) == (QUEUED, ReasonCode.BUILT)
    assert await yard.permits() == {job.id}


async def test_jobs_stranded_by_a_death_are_found_by_the_sweep(yard: Yard) -> None:
    """Added just when the build ended, by a process that died before it looked again."""
    build = await yard.build()
    experiment = await yard.api.experiment()
    commits = 0

    async def ends_and_dies(operation: str) -> None:
        nonlocal commits
        commits += operation == "store.commit"
        if operation == "store.commit" and commits == 1:
            yard.recording.reset()
            await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
            yard.recording.before = ends_and_dies
        elif operation == "store.get" and commits > 0:
            yard.recording.reset()
            raise Killed

    yard.recording.before = ends_and_dies
    with pytest.raises(Killed):
        await yard.api.jobs(experiment, needing(build))
    await yard.later(timedelta(seconds=1))
    (job,) = (await yard.api.call("GET", f"/experiments/{experiment.id}/jobs")).json()["jobs"]
    assert job["state"] == "queued"
    assert await yard.permits() == {job["id"]}


async def test_a_build_that_fails_fails_its_jobs_with_what_it_said(yard: Yard) -> None:
    build = await yard.build()
    jobs = await add(yard.api, [needing(build)], [needing(build)])
    failed = await yard.becomes(
        build,
        BuilderState.FAILED,
        step="RUN pip install",
        tail="no such\npackage",
        message="exit 1",
    )
    assert (failed.state, failed.step) == (BuildState.FAILED, "RUN pip install")
    for job in await now(yard.api, jobs):
        assert (job.state, job.reason.code) == (FAILED, ReasonCode.BUILD_FAILED)
        assert job.reason.message == (
            f"build {build.id} failed: step RUN pip install: exit 1\nno such\npackage"
        )
    assert await yard.permits() == set()


async def test_a_build_that_takes_too_long_has_failed(yard: Yard) -> None:
    build = await yard.build(timeout_seconds=600)
    failed = await yard.becomes(build, BuilderState.TIMED_OUT)
    assert (failed.state, failed.message) == (BuildState.FAILED, "not done within 0:10:00")


async def test_one_of_a_group_without_an_image_stops_the_group(yard: Yard) -> None:
    build, other = await yard.build(), await yard.build(name="other")
    jobs = await add(yard.api, [needing(build, "a"), needing(other, "b"), new_job("c")])
    assert [job.state for job in jobs] == [BUILDING, BUILDING, QUEUED]
    await yard.becomes(build, BuilderState.FAILED)
    assert await states(yard.api, jobs) == [FAILED, STOPPED, STOPPED]


async def test_a_group_starts_when_all_its_images_are_there(yard: Yard) -> None:
    build, other = await yard.build(), await yard.build(name="other")
    await add(yard.api, [needing(build, "a"), needing(other, "b"), new_job("c")])
    ant = await yard.api.session("ant", slots=3)
    await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
    assert (await ask(yard.api, ant, 3)).jobs == []
    await yard.becomes(other, BuilderState.SUCCEEDED, image=IMAGE)
    assert [job.name for job in (await ask(yard.api, ant, 3)).jobs] == ["a", "b", "c"]


async def test_what_failed_is_built_again_when_somebody_asks(yard: Yard) -> None:
    build = await yard.build()
    (job,) = await add(yard.api, [needing(build)])
    await yard.becomes(build, BuilderState.FAILED)
    again = await yard.build()
    assert (again.id, again.state, again.tries) == (build.id, BuildState.WORKING, 2)
    assert len(set(yard.builder.tags.values())) == 2
    assert (await yard.api.post(Job, f"/jobs/{job.id}/enqueue")).state is BUILDING
    await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)
    assert await states(yard.api, [job]) == [QUEUED]


async def test_what_the_builder_breaks_is_made_again_so_often(yard: Yard) -> None:
    build = await yard.build()
    (job,) = await add(yard.api, [needing(build)])
    for tries in (2, 3):
        build = await yard.becomes(build, BuilderState.BROKEN, message="internal error")
        assert (build.state, build.tries) == (BuildState.WORKING, tries)
        assert await states(yard.api, [job]) == [BUILDING]
    build = await yard.becomes(build, BuilderState.BROKEN, message="internal error")
    assert (build.state, build.tries) == (BuildState.FAILED, 3)
    assert len(yard.builder.tags) == 3
    assert await states(yard.api, [job]) == [FAILED]


async def test_the_stop_of_the_last_job_that_waits_ends_the_build(yard: Yard) -> None:
    build = await yard.build()
    first, last = await add(yard.api, [needing(build)], [needing(build)])
    await yard.api.post(Job, f"/jobs/{first.id}/stop")
    assert (await yard.now(build)).state is BuildState.WORKING
    await yard.api.post(Job, f"/jobs/{last.id}/dequeue")
    stopped = await yard.now(build)
    assert stopped.state is BuildState.STOPPED
    assert yard.builder.state(stopped.remote) is BuilderState.CANCELLED
    assert await states(yard.api, [first, last]) == [STOPPED, DRAFT]


async def test_an_experiment_that_is_stopped_ends_its_builds(yard: Yard) -> None:
    build = await yard.build()
    jobs = await add(yard.api, [needing(build)], [needing(build)])
    await yard.api.post(Acted, f"/experiments/{jobs[0].experiment_id}/stop")
    assert (await yard.now(build)).state is BuildState.STOPPED
    assert await states(yard.api, jobs) == [STOPPED, STOPPED]


async def test_a_build_that_ends_while_its_last_job_is_stopped(yard: Yard) -> None:
    build = await yard.build()
    (job,) = await add(yard.api, [needing(build)])

    async def ends() -> None:
        await yard.becomes(build, BuilderState.SUCCEEDED, image=IMAGE)

    async def before_the_look(operation: str) -> None:
        if operation == "store.count":
            yard.recording.once("store.commit", ends)

    yard.recording.before = before_the_look
    assert (await yard.api.post(Job, f"/jobs/{job.id}/stop")).state is STOPPED
    assert (await yard.now(build)).state is BuildState.BUILT


async def test_people_may_stop_a_build_and_its_jobs_fail(yard: Yard) -> None:
    build = await yard.build()
    (job,) = await add(yard.api, [needing(build)])
    await yard.api.post(Build, f"/builds/{build.id}/stop", {"by": "ann"})
    (job,) = await now(yard.api, [job])
    assert (job.state, job.reason.code) == (FAILED, ReasonCode.BUILD_FAILED)
    assert "stopped by ann" in job.reason.message
    await yard.api.refused("POST", f"/builds/{build.id}/stop", 409, {})


async def test_a_cancellation_at_the_builder_is_heard(yard: Yard) -> None:
    build = await yard.build()
    assert (await yard.becomes(build, BuilderState.CANCELLED)).state is BuildState.STOPPED


@pytest.mark.parametrize("mishap", ["lost_requests", "quota"])
async def test_the_sweep_submits_what_the_builder_did_not_take(yard: Yard, mishap: str) -> None:
    setattr(yard.builder.mishaps, mishap, 1)
    build = await yard.build()
    assert (build.state, build.remote) == (BuildState.QUEUED, "")
    assert build.message
    await yard.later(SUBMITTING - timedelta(seconds=1))
    assert yard.builder.tags == {}
    await yard.later(timedelta(seconds=1))
    assert (await yard.now(build)).state is BuildState.WORKING
    assert len(yard.builder.tags) == 1


async def test_a_submission_whose_answer_was_lost_is_found(yard: Yard) -> None:
    yard.builder.mishaps.lost_answers = 1
    build = await yard.build()
    assert build.state is BuildState.QUEUED
    await yard.later(SUBMITTING)
    assert (await yard.now(build)).remote in yard.builder.tags
    assert len(yard.builder.tags) == 1


async def test_a_death_after_the_submission_leaves_one_build(yard: Yard) -> None:
    async def dies(operation: str) -> None:
        if operation == "store.commit" and yard.builder.tags:
            yard.recording.reset()
            raise Killed

    yard.recording.before = dies
    with pytest.raises(Killed):
        await yard.build()
    await yard.later(SUBMITTING)
    (build,) = (await yard.api.get(Builds, "/builds")).builds
    assert build.state is BuildState.WORKING
    assert len(yard.builder.tags) == 1


async def test_of_two_submissions_the_second_is_cancelled(yard: Yard) -> None:
    """Two launches ask for the same build at the same moment."""
    late = Recording()
    late.once("builder.submit", yard.build)

    async def before(call: str) -> None:
        await late.before(call)

    yard.builder.mishaps.before = before
    build = await yard.build()
    first, second = yard.builder.tags
    assert build == await yard.now(build)
    assert (build.state, build.remote) == (BuildState.WORKING, first)
    assert yard.builder.state(first) is BuilderState.WAITING
    assert yard.builder.state(second) is BuilderState.CANCELLED


async def test_what_the_builder_refuses_has_failed(yard: Yard) -> None:
    yard.builder.mishaps.refused = 1
    build = await yard.build()
    assert build.state is BuildState.FAILED
    assert "machine type is not known" in build.message


async def test_a_build_of_which_no_event_told_is_looked_at(yard: Yard) -> None:
    build = await yard.build()
    (job,) = await add(yard.api, [needing(build)])
    yard.builder.becomes(build.remote, BuilderState.SUCCEEDED, image=IMAGE)
    await yard.later(LOOK_AGAIN)
    assert await states(yard.api, [job]) == [QUEUED]


async def test_a_build_that_the_builder_forgot_has_failed(yard: Yard) -> None:
    build = await yard.build()
    yard.builder.forget(build.remote)
    await yard.later(LOOK_AGAIN)
    build = await yard.now(build)
    assert (build.state, build.message) == (
        BuildState.FAILED,
        "the builder does not know it any more",
    )


async def test_an_event_that_comes_twice_or_late_changes_nothing(yard: Yard) -> None:
    build = await yard.build()
    event = yard.builder.becomes(build.remote, BuilderState.FAILED)
    await build_event(yard.api.plane, event)
    again = await yard.build()
    for body in (event, event, "{}", "nonsense", '{"build": "elsewhere"}'):
        await build_event(yard.api.plane, body)
    assert await yard.now(build) == again


async def test_jobs_need_a_build_that_is_there(yard: Yard) -> None:
    build = (await yard.build()).evolve(id="b" * 16)
    experiment: Experiment = await yard.api.experiment()
    body = {"units": [{"jobs": [needing(build).model_dump(mode="json")]}]}
    refusal = await yard.api.refused("POST", f"/experiments/{experiment.id}/units", 404, body)
    assert "Package the code again." in refusal.remedy


async def test_without_a_builder_the_way_out_is_told(tmp_path: Path) -> None:
    clock, signals = ManualClock(), HeardSignals()
    async with opened_api(sqlite_plane(tmp_path, clock, signals), clock, signals, tmp_path) as api:
        refusal = await api.refused("POST", "/builds", 409, {"spec": SPEC})
        assert "--xm_build_image_locally" in refusal.remedy
