"""What becomes of attempts on a target, whatever fails between it and the control plane."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import finished
from tests.functions.clouds import Cloud, Killed, image, opened_cloud, submitted
from tests.functions.groups import add, now, states
from tests.functions.states import COMPLETED, FAILED, RUNNING, STARTING, STOPPED
from tests.support.recording import Recording
from xmcloud.core.control.observing import platform_event
from xmcloud.core.control.submissions import SUBMITTING
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.platforms import PlatformState

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Cloud]:
    async with opened_cloud(tmp_path) as cloud:
        yield cloud


async def test_a_lost_answer_does_not_submit_twice(cloud: Cloud) -> None:
    cloud.platform.mishaps.lost_answers = 1
    (job,) = await submitted(cloud)
    assert job.attempt is not None
    assert job.attempt.remote is None
    await cloud.later(SUBMITTING - timedelta(seconds=1))
    assert (await cloud.now(job)).attempt == job.attempt
    await cloud.later(timedelta(seconds=1))
    job = await cloud.now(job)
    assert job.attempt is not None
    assert job.attempt.remote is not None
    assert job.attempt.remote.name == cloud.name(job)
    assert len(cloud.platform.launches) == 1


async def test_a_lost_request_is_made_again(cloud: Cloud) -> None:
    cloud.platform.mishaps.lost_requests = 1
    (job,) = await submitted(cloud)
    assert cloud.platform.launches == {}
    await cloud.later(SUBMITTING)
    assert cloud.name(job) in cloud.platform.live()
    assert (await cloud.now(job)).losses == 0


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("operation", "after", "submissions"),
    [("platform.submit", 0, 1), ("store.commit", 1, 1), ("store.commit", 2, 1)],
    ids=["before", "after", "recorded"],
)
async def test_a_death_around_the_submission_leaves_one(
    cloud: Cloud, operation: str, after: int, submissions: int, size: int
) -> None:
    jobs = await add(cloud.api, [image(name) for name in "ab"[:size]])
    cloud.die_at(operation, after)
    with suppress(Killed):
        await cloud.dispatch()
    cloud.live()
    await cloud.later(SUBMITTING)
    assert await states(cloud.api, jobs) == [STARTING] * size
    assert len(cloud.platform.launches) == submissions
    await cloud.becomes(jobs[0], PlatformState.SUCCEEDED)
    assert await states(cloud.api, jobs) == [COMPLETED] * size


async def test_of_two_submissions_the_second_is_cancelled(cloud: Cloud) -> None:
    """The first took so long that the sweep took it for lost."""

    async def sweeps() -> None:
        await cloud.later(SUBMITTING)

    (job,) = await add(cloud.api, [image()])
    late = Recording()
    late.once("platform.submit", sweeps)

    async def before(call: str) -> None:
        await late.before(call)

    cloud.platform.mishaps.before = before
    await cloud.dispatch()
    first, second = cloud.platform.named(f"{job.id}-1")
    attempt = (await cloud.now(job)).attempt
    assert attempt is not None
    assert attempt.remote is not None
    assert attempt.remote.name == first
    assert cloud.platform.live() == [first]
    assert cloud.platform.cancelled == [second]


async def test_submissions_that_the_sweep_finds_besides_are_cancelled(cloud: Cloud) -> None:
    cloud.platform.mishaps.lost_answers = 1
    (job,) = await submitted(cloud)
    (launch,) = cloud.platform.launches.values()
    await cloud.platform.submit(launch)
    first, second = cloud.platform.named(f"{job.id}-1")
    await cloud.later(SUBMITTING)
    assert cloud.platform.live() == [first]
    assert cloud.platform.cancelled == [second]


async def test_a_group_whose_first_job_told_its_end_before_it_was_recorded(cloud: Cloud) -> None:
    """The rest of it is found by the label all the same, and not submitted in part."""
    jobs = await add(cloud.api, [image("a"), image("b")])
    cloud.platform.mishaps.lost_answers = 1
    await cloud.dispatch()
    await tells_its_end(cloud, jobs[0], "completed")
    await cloud.later(SUBMITTING)
    assert len(cloud.platform.launches) == 1
    await cloud.becomes(jobs[0], PlatformState.SUCCEEDED)
    assert await states(cloud.api, jobs) == [COMPLETED, COMPLETED]


async def test_a_group_that_is_gone_though_it_ran_is_not_submitted_in_part(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a"), image("b")])
    cloud.platform.mishaps.lost_answers = 1
    await cloud.dispatch()
    cloud.platform.forget(cloud.name(jobs[0]))
    await tells_its_end(cloud, jobs[0], "completed")
    await cloud.later(SUBMITTING)
    a, b = await now(cloud.api, jobs)
    assert (a.state, b.state, b.fence, b.losses) == (COMPLETED, STARTING, 2, 1)
    assert b.attempts[0].outcome is Outcome.LOST


async def tells_its_end(cloud: Cloud, job: Job, outcome: str) -> None:
    token = cloud.api.plane.tokens.token(job.id, 1)
    headers = {"Authorization": f"Bearer {token}"}
    body = {"reports": [finished(job.evolve(fence=1), outcome)]}
    await cloud.api.call("POST", f"/attempts/{job.id}/1/reports", body, headers=headers)


@pytest.mark.parametrize("by_event", [True, False], ids=["event", "sweep"])
@pytest.mark.parametrize(
    ("state", "told", "becomes", "code"),
    [
        (PlatformState.RUNNING, {}, RUNNING, ReasonCode.STARTED),
        (PlatformState.SUCCEEDED, {}, COMPLETED, ReasonCode.EXITED),
        (PlatformState.FAILED, {"message": "oh", "exit_code": 3}, FAILED, ReasonCode.EXITED),
        (PlatformState.CANCELLED, {}, STOPPED, ReasonCode.STOP_REQUESTED),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
async def test_what_the_platform_tells_becomes_the_state_of_the_job(
    cloud: Cloud,
    state: PlatformState,
    told: dict[str, Any],
    becomes: JobState,
    code: ReasonCode,
    by_event: bool,
) -> None:
    (job,) = await submitted(cloud)
    if by_event:
        job = await cloud.becomes(job, state, **told)
    else:
        cloud.platform.becomes(cloud.name(job), state, **told)
        await cloud.later(timedelta(seconds=1))
        job = await cloud.now(job)
    assert (job.state, job.reason.code) == (becomes, code)
    assert job.reason.exit_code == told.get("exit_code", 0 if becomes is COMPLETED else None)


async def test_why_a_job_waits_at_the_platform_is_told(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    cloud.api.clock.advance(5)
    job = await cloud.becomes(job, PlatformState.PENDING, message="no machines in us-central1")
    assert (job.state, job.updated_at) == (STARTING, cloud.api.clock.now())
    assert job.reason.message == "waits on cloud: no machines in us-central1"


async def test_an_event_that_comes_twice_changes_nothing(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    job = await cloud.becomes(job, PlatformState.SUCCEEDED)
    for event in [*cloud.platform.events, *cloud.platform.events, "{}", "nonsense"]:
        await platform_event(cloud.api.plane, event)
    assert await cloud.now(job) == job


@pytest.mark.parametrize("state", [PlatformState.PREEMPTED, PlatformState.BROKEN])
async def test_what_is_no_fault_of_the_job_sends_it_again_so_often(
    cloud: Cloud, state: PlatformState
) -> None:
    (job,) = await submitted(cloud, image(limits={"infrastructure_retries": 1}))
    job = await cloud.becomes(job, state)
    assert (job.state, job.fence, job.losses, job.failures) == (STARTING, 2, 1, 0)
    assert job.attempts[0].outcome is Outcome.LOST
    job = await cloud.becomes(job, state, fence=2)
    assert (job.state, job.reason.code) == (FAILED, ReasonCode.RETRIES_EXHAUSTED)


async def test_a_group_that_is_preempted_is_queued_whole_and_starts_again(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a"), image("b")])
    await cloud.dispatch()
    await cloud.becomes(jobs[0], PlatformState.RUNNING)
    await cloud.becomes(jobs[0], PlatformState.PREEMPTED)
    found = await now(cloud.api, jobs)
    assert [(job.state, job.fence, job.losses) for job in found] == [(STARTING, 2, 1)] * 2
    assert len(cloud.platform.launches) == 2


async def test_a_job_that_the_platform_lost_is_run_again(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    cloud.platform.forget(cloud.name(job))
    await cloud.later(timedelta(seconds=1))
    job = await cloud.now(job)
    assert (job.state, job.fence, job.losses) == (STARTING, 2, 1)
    assert job.attempts[0].reason is not None
    assert job.attempts[0].reason.message == "cloud has lost it"


async def test_a_stop_of_what_waits_ends_it_at_once(cloud: Cloud) -> None:
    (job,) = await add(cloud.api, [image()])
    assert (await cloud.stop(job)).state is STOPPED
    assert await cloud.dispatch() == 0


async def test_a_stop_before_the_submission_prevents_it(cloud: Cloud) -> None:
    (job,) = await add(cloud.api, [image()])
    cloud.die_at("platform.submit")
    with pytest.raises(Killed):
        await cloud.dispatch()
    assert (await cloud.stop(job)).state is STARTING
    await cloud.later(SUBMITTING)
    job = await cloud.now(job)
    assert (job.state, job.reason.code) == (STOPPED, ReasonCode.STOP_REQUESTED)
    assert cloud.platform.launches == {}


async def test_a_stop_during_the_submission_cancels_what_came_of_it(cloud: Cloud) -> None:
    (job,) = await add(cloud.api, [image()])
    late = Recording()
    late.once("platform.submit", lambda: cloud.stop(job))

    async def before(call: str) -> None:
        await late.before(call)

    cloud.platform.mishaps.before = before
    await cloud.dispatch()
    assert cloud.platform.live() == []
    await cloud.later(timedelta(seconds=1))
    assert (await cloud.now(job)).state is STOPPED


@pytest.mark.parametrize("runs", [False, True])
async def test_a_stop_cancels_what_the_platform_has(cloud: Cloud, runs: bool) -> None:
    (job,) = await submitted(cloud)
    if runs:
        job = await cloud.becomes(job, PlatformState.RUNNING)
    assert (await cloud.stop(job)).state in (STARTING, RUNNING)
    assert cloud.platform.cancelled == [cloud.name(job)]
    await platform_event(cloud.api.plane, cloud.platform.events[-1])
    job = await cloud.now(job)
    assert (job.state, job.reason.message) == (STOPPED, "stopped by ann")


async def test_a_stop_wins_over_a_preemption(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    cloud.platform.slow = True
    await cloud.stop(job)
    job = await cloud.becomes(job, PlatformState.PREEMPTED)
    assert job.state is STOPPED


async def test_who_succeeds_before_it_is_cancelled_has_completed(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    cloud.platform.slow = True
    await cloud.stop(job)
    assert (await cloud.becomes(job, PlatformState.SUCCEEDED)).state is COMPLETED


async def test_a_stop_that_the_platform_did_not_hear_is_said_again(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    cloud.platform.mishaps.silent = True
    await cloud.stop(job)
    await cloud.later(timedelta(seconds=1))
    assert cloud.platform.cancelled == []
    cloud.platform.mishaps.silent = False
    await cloud.later(timedelta(seconds=1))
    await cloud.later(timedelta(seconds=1))
    assert cloud.platform.cancelled == [cloud.name(job)]
    assert (await cloud.now(job)).state is STOPPED


async def test_a_stop_of_one_job_cancels_its_group_once(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a"), image("b")])
    await cloud.dispatch()
    await cloud.stop(jobs[1])
    assert set(cloud.platform.cancelled) == {cloud.name(jobs[0])}
    await cloud.later(timedelta(seconds=1))
    assert await states(cloud.api, jobs) == [STOPPED, STOPPED]
