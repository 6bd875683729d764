"""Targets: what they are given, in which order and how fast."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import new_job
from tests.functions.clouds import URL, Cloud, image, opened_cloud, submitted
from tests.functions.groups import add, now, states
from tests.functions.states import COMPLETED, FAILED, QUEUED, RUNNING, STARTING
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.submissions import QUOTA_PAUSE
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job, JobState, Outcome, QueueState, ReasonCode
from xmcloud.core.platforms import PlatformState
from xmcloud.core.protocol import NewUnit, NewUnits

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Cloud]:
    async with opened_cloud(tmp_path) as cloud:
        yield cloud


def order(cloud: Cloud) -> list[str]:
    return [job.name for launch in cloud.platform.launches.values() for job in launch.jobs]


async def test_a_job_is_submitted_with_what_tells_which_attempt_it_is(cloud: Cloud) -> None:
    (job,) = await submitted(cloud)
    (launch,) = cloud.platform.launches.values()
    assert launch.label == f"{job.id}-1"
    token = cloud.api.plane.tokens.token(job.id, 1)
    assert launch.environment == {
        job.id: {
            "XMCLOUD_EXPERIMENT_ID": job.experiment_id,
            "XMCLOUD_UNIT": "1",
            "XMCLOUD_JOB_NAME": "train",
            "XMCLOUD_JOB_ID": job.id,
            "XMCLOUD_ATTEMPT": "1",
            "XMCLOUD_GRACE_SECONDS": "10",
            "TRACEPARENT": job.trace,
            "XMCLOUD_URL": URL,
            "XMCLOUD_ATTEMPT_TOKEN": token,
        }
    }
    assert token not in repr(launch)
    assert job.state is STARTING
    assert job.attempt is not None
    assert job.attempt.worker == "cloud"
    assert job.attempt.remote is not None
    assert job.attempt.remote.url.startswith("https://")
    assert job.reason.code is ReasonCode.SUBMITTED


async def test_jobs_go_by_the_priority_of_their_queue_and_then_by_their_place(
    cloud: Cloud,
) -> None:
    jobs = await add(
        cloud.api,
        *[[image(name, queue)] for name, queue in (("c", "default"), ("d", "default"))],
        [image("e", "low")],
        [image("b", "high")],
        [image("no", pool="elsewhere")],
        [image("anybody", pool="")],
    )
    await cloud.api.post(Job, f"/jobs/{jobs[1].id}/move", {"to": "front"})
    assert await cloud.dispatch() == 4
    assert order(cloud) == ["b", "d", "c", "e"]


async def test_nothing_goes_out_of_a_paused_queue(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a", "high")], [image("b", "default")])
    await cloud.api.post(QueueState, "/queues/high/pause")
    assert await cloud.dispatch() == 1
    assert await states(cloud.api, jobs) == [QUEUED, STARTING]
    await cloud.api.post(QueueState, "/queues/high/resume")
    assert await cloud.dispatch() == 1


async def test_a_target_has_no_more_jobs_than_its_limit(cloud: Cloud) -> None:
    cloud.allow(limit=2)
    jobs = await add(cloud.api, *[[image()] for _ in range(3)])
    assert await cloud.dispatch() == 2
    assert await cloud.dispatch() == 0
    assert await states(cloud.api, jobs) == [STARTING, STARTING, QUEUED]
    status = await cloud.status()
    assert (status.name, status.limit, status.running) == ("cloud", 2, 2)
    await cloud.becomes(jobs[0], PlatformState.SUCCEEDED)
    assert await states(cloud.api, jobs) == [COMPLETED, STARTING, STARTING]


async def test_submissions_keep_a_pace(cloud: Cloud) -> None:
    cloud.allow(limit=100, per_minute=6)
    jobs = await add(cloud.api, *[[image()] for _ in range(6)])
    assert await cloud.dispatch() == 3
    assert await cloud.dispatch() == 0
    cloud.api.clock.advance(9)
    assert await cloud.dispatch() == 0
    cloud.api.clock.advance(1)
    assert await cloud.dispatch() == 1
    cloud.api.clock.advance(3600)
    assert await cloud.dispatch() == 2
    assert await states(cloud.api, jobs) == [STARTING] * 6


async def test_more_jobs_than_one_commit_takes_go_in_several(cloud: Cloud) -> None:
    cloud.allow(limit=10_000, per_minute=6000)
    for _ in range(6):
        await add(cloud.api, [image(f"job-{n}") for n in range(90)])
    assert await cloud.dispatch() == 540
    assert len(cloud.platform.launches) == 6


async def test_a_group_is_one_submission_and_ends_as_one(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a"), image("b")])
    assert await cloud.dispatch() == 2
    (launch,) = cloud.platform.launches.values()
    assert [job.id for job in launch.jobs] == [job.id for job in jobs]
    await cloud.becomes(jobs[0], PlatformState.RUNNING)
    assert await states(cloud.api, jobs) == [RUNNING, RUNNING]
    await cloud.becomes(jobs[0], PlatformState.SUCCEEDED)
    assert await states(cloud.api, jobs) == [COMPLETED, COMPLETED]


async def test_a_group_goes_whole_and_is_not_overtaken_for_ever(cloud: Cloud) -> None:
    cloud.allow(limit=2)
    first, *group, last = await add(
        cloud.api, [image("first")], [image("a"), image("b")], [image("last")]
    )
    assert await cloud.dispatch() == 1
    await cloud.becomes(first, PlatformState.SUCCEEDED)
    assert await states(cloud.api, [*group, last]) == [STARTING, STARTING, QUEUED]


async def test_a_group_larger_than_the_limit_lets_others_by(cloud: Cloud) -> None:
    """The limit was lowered after it was added."""
    *group, alone = await add(cloud.api, [image("a"), image("b")], [image("alone")])
    cloud.allow(limit=1)
    assert await cloud.dispatch() == 1
    assert await states(cloud.api, [*group, alone]) == [QUEUED, QUEUED, STARTING]


async def test_without_quota_a_job_waits_and_other_kinds_go_on(cloud: Cloud) -> None:
    t4: dict[str, Any] = {"resources": {"cpu": 1, "t4": 1}}
    jobs = await add(cloud.api, [image("a", **t4)], [image("b", resources={"cpu": 1})])
    cloud.platform.mishaps.quota = 1
    cloud.allow(limit=1)
    await cloud.dispatch()
    a, b = await now(cloud.api, jobs)
    assert (a.state, b.state) == (QUEUED, STARTING)
    assert a.reason.code is ReasonCode.QUOTA
    assert "cloud has no quota for it now" in a.reason.message
    assert (a.losses, a.failures) == (0, 0)
    cloud.allow(limit=4)
    (blocked,) = (await cloud.status()).blocks.items()
    assert blocked[0] == "t4"
    assert blocked[1].until == cloud.api.clock.now() + QUOTA_PAUSE
    (second,) = await add(cloud.api, [image("c", **t4)])
    assert await cloud.dispatch() == 0
    await cloud.later(QUOTA_PAUSE - timedelta(seconds=1))
    assert await states(cloud.api, [a, second]) == [QUEUED, QUEUED]
    await cloud.later(timedelta(seconds=1))
    assert await states(cloud.api, [a, second]) == [STARTING, STARTING]
    assert (await cloud.status()).blocks == {}


async def test_without_quota_a_group_waits_whole(cloud: Cloud) -> None:
    jobs = await add(cloud.api, [image("a"), image("b")])
    cloud.platform.mishaps.quota = 1
    await cloud.dispatch()
    found = await now(cloud.api, jobs)
    assert [(j.state, j.losses, j.reason.code) for j in found] == [
        (QUEUED, 0, ReasonCode.QUOTA)
    ] * 2
    assert [job.attempts[-1].outcome for job in found] == [Outcome.RELEASED] * 2
    await cloud.later(QUOTA_PAUSE)
    assert await states(cloud.api, jobs) == [STARTING, STARTING]
    assert len(cloud.platform.launches) == 1


async def test_what_is_refused_has_failed_and_says_why(cloud: Cloud) -> None:
    cloud.platform.mishaps.refused = 1
    (job,) = await submitted(cloud)
    assert job.state is FAILED
    assert job.reason.code is ReasonCode.REFUSED
    assert "cloud refused it: The machine type is not known." in job.reason.message


async def test_what_is_refused_is_not_submitted_again(cloud: Cloud) -> None:
    cloud.platform.mishaps.refused = 1
    (job,) = await add(cloud.api, [image(limits={"retries": 3})])
    await cloud.dispatch()
    assert ((await cloud.now(job)).state, await cloud.dispatch()) == (JobState.FAILED, 0)


async def test_a_group_that_is_larger_than_the_limit_is_refused_when_it_is_added(
    cloud: Cloud,
) -> None:
    cloud.allow(1)
    path = f"/experiments/{(await cloud.api.experiment()).id}/units"
    body = NewUnits(units=(NewUnit(jobs=(image("a"), image("b"))),))
    refusal = await cloud.api.refused("POST", path, 422, body)
    assert "at most 1 in a group: cloud runs no more at a time" in refusal.remedy


async def test_what_a_target_could_never_run_is_refused_when_it_is_added(cloud: Cloud) -> None:
    experiment = await cloud.api.experiment()
    path, bad = f"/experiments/{experiment.id}/units", new_job(pool="cloud")
    body = {"units": [{"jobs": [bad.model_dump(mode="json")]}]}
    refusal = await cloud.api.refused("POST", path, 422, body)
    assert refusal.field == "executable.kind"


async def test_a_draft_that_was_made_impossible_fails_at_its_submission(cloud: Cloud) -> None:
    (job,) = await add(cloud.api, [image(queue=None)])
    spec = new_job(pool="cloud").spec.model_dump(mode="json")
    await cloud.api.call("PATCH", f"/jobs/{job.id}", {"spec": spec})
    await cloud.api.post(Job, f"/jobs/{job.id}/enqueue")
    await cloud.dispatch()
    job = await cloud.now(job)
    assert (job.state, job.reason.code) == (FAILED, ReasonCode.REFUSED)


async def test_a_target_that_is_not_there(cloud: Cloud) -> None:
    with pytest.raises(NotFound, match="target"):
        await dispatch(cloud.api.plane, "elsewhere")
