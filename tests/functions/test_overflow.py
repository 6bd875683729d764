"""When a job that its pool does not take goes to a target instead."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.functions.groups import add, ask, now, states
from tests.support.clock import ManualClock
from tests.support.platform import MemoryPlatform
from xmcloud.core.control.overflow import overflow_due
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState, ReasonCode
from xmcloud.core.platforms import PlatformState
from xmcloud.core.ports import Subscription
from xmcloud.core.protocol import NewJob

pytestmark = pytest.mark.anyio

IMAGE = {"kind": "image", "image": "registry.example/train@sha256:1"}
AFTER = timedelta(seconds=60)
CLOUD = Subscription("queue-default", "cloud")
DRAFT, QUEUED, STARTING, COMPLETED = (
    JobState.DRAFT,
    JobState.QUEUED,
    JobState.STARTING,
    JobState.COMPLETED,
)


@pytest.fixture
def platform() -> MemoryPlatform:
    return MemoryPlatform()


@pytest.fixture
async def api(tmp_path: Path, platform: MemoryPlatform, anyio_backend: str) -> AsyncIterator[Api]:
    clock, signals = ManualClock(), HeardSignals()
    plane = sqlite_plane(tmp_path, clock, signals)
    plane = replace(plane, targets={"cloud": Target(platform)})
    async with opened_api(plane, clock, signals, tmp_path) as api:
        await plane.queue.subscribe([CLOUD])
        yield api


def overflowing(name: str = "train", queue: str | None = "default", **spec: Any) -> NewJob:
    overflow = {"target": "cloud", "after_seconds": AFTER.total_seconds()}
    fields = {"executable": IMAGE, "pool": "local", "overflow": overflow, **spec}
    return new_job(name, queue, **fields)


async def later(api: Api, time: timedelta) -> None:
    api.clock.advance(time)
    await sweep(api.plane)


async def permits(api: Api) -> list[str]:
    """For the target."""
    return [each.message.body for each in await api.plane.queue.pull([CLOUD], 10, 0)]


async def test_what_nobody_took_in_time_goes_to_the_target(
    api: Api, platform: MemoryPlatform
) -> None:
    (job,) = await add(api, [overflowing()])
    await api.session("ant", slots=1)
    assert job.waiting is not None
    assert job.waiting.overflow_at == api.clock.now() + AFTER
    await later(api, AFTER - timedelta(microseconds=1))
    assert (await now(api, [job]))[0].overflowed is False
    assert platform.launches == {}
    await later(api, timedelta(microseconds=1))
    (job,) = await now(api, [job])
    assert (job.state, job.pool, job.overflowed) == (STARTING, "cloud", True)
    assert await permits(api) == [job.id]


async def test_it_says_why_it_went(api: Api) -> None:
    (job,) = await add(api, [overflowing()])
    api.clock.advance(AFTER)
    assert await overflow_due(api.plane) == 1
    (job,) = await now(api, [job])
    assert (job.state, job.reason.code) == (QUEUED, ReasonCode.OVERFLOWED)
    assert job.reason.message == "no worker of local took it within 0:01:00: it goes to cloud"


async def test_what_was_claimed_in_time_stays(api: Api, platform: MemoryPlatform) -> None:
    (job,) = await add(api, [overflowing()])
    ant = await api.session("ant", slots=1)
    assert len((await ask(api, ant, 1)).jobs) == 1
    for _ in range(4):
        api.clock.advance(AFTER / 3)
        if api.clock.now() < ant.opened_at + AFTER:
            await api.sync(ant)
    await sweep(api.plane)
    (job,) = await now(api, [job])
    assert (job.overflowed, platform.launches) == (False, {})


async def test_who_is_lost_waits_for_its_pool_anew(api: Api, platform: MemoryPlatform) -> None:
    (job,) = await add(api, [overflowing()])
    ant = await api.session("ant", slots=1)
    await ask(api, ant, 1)
    await later(api, AFTER)
    (job,) = await now(api, [job])
    assert (job.state, job.overflowed) == (QUEUED, False)
    assert job.waiting is not None
    assert job.waiting.overflow_at == api.clock.now() + AFTER


async def test_what_no_worker_could_ever_fit_goes_at_once(
    api: Api, platform: MemoryPlatform
) -> None:
    await api.session("ant", slots=1, resources={"cpu": 4})
    await api.session("elk", pool="other", slots=1, resources={"cpu": 99})
    big, small = await add(
        api, [overflowing(resources={"cpu": 8})], [overflowing(resources={"cpu": 4})]
    )
    assert ((big.pool, big.overflowed), small.overflowed) == (("cloud", True), False)
    assert await permits(api) == [big.id]
    await sweep(api.plane)
    assert await states(api, [big, small]) == [STARTING, QUEUED]


async def test_a_pool_without_workers_may_get_one(api: Api) -> None:
    (job,) = await add(api, [overflowing(resources={"cpu": 8})])
    assert job.overflowed is False


async def test_a_group_goes_whole(api: Api, platform: MemoryPlatform) -> None:
    await api.session("ant", slots=2, resources={"cpu": 4})
    jobs = await add(api, [overflowing("a"), overflowing("b", resources={"cpu": 8})])
    assert [job.overflowed for job in jobs] == [True, True]
    later_jobs = await add(api, [overflowing("a"), overflowing("b")])
    await later(api, AFTER)
    assert [job.overflowed for job in await now(api, later_jobs)] == [True, True]
    assert len(platform.launches) == 2


async def test_what_is_enqueued_again_goes_to_its_pool_first(
    api: Api, platform: MemoryPlatform
) -> None:
    (job,) = await add(api, [overflowing()])
    await later(api, AFTER)
    (name,) = platform.live()
    platform.becomes(name, PlatformState.SUCCEEDED)
    await sweep(api.plane)
    (job,) = await now(api, [job])
    assert (job.state, job.overflowed) == (COMPLETED, True)
    reset = await api.post(Job, f"/jobs/{job.id}/reset")
    assert (reset.state, reset.pool) == (DRAFT, "local")
    again = await api.post(Job, f"/jobs/{job.id}/enqueue")
    assert (again.pool, again.overflowed) == ("local", False)
    ant = await api.session("ant", slots=1)
    assert [taken.id for taken in (await ask(api, ant, 1)).jobs] == [job.id]


async def test_what_is_enqueued_and_fits_no_worker_goes_at_once(api: Api) -> None:
    await api.session("ant", slots=1)
    (job,) = await add(api, [overflowing(queue=None, resources={"cpu": 1})])
    assert (await api.post(Job, f"/jobs/{job.id}/enqueue")).overflowed
    await api.post(Job, f"/jobs/{job.id}/dequeue")
    await api.call("POST", f"/experiments/{job.experiment_id}/enqueue", {})
    assert (await now(api, [job]))[0].overflowed


async def test_what_was_taken_out_may_lose_its_overflow(api: Api) -> None:
    await api.session("ant", slots=1)
    (job,) = await add(api, [overflowing(resources={"cpu": 1})])
    assert job.overflowed
    await api.post(Job, f"/jobs/{job.id}/dequeue")
    spec = new_job(pool="local").spec.model_dump(mode="json")
    response = await api.call("PATCH", f"/jobs/{job.id}", {"spec": spec})
    assert Job.model_validate_json(response.content).pool == "local"


async def test_what_a_target_takes_again_after_a_preemption_stays_with_it(
    api: Api, platform: MemoryPlatform
) -> None:
    (job,) = await add(api, [overflowing()])
    await later(api, AFTER)
    platform.becomes(platform.live()[0], PlatformState.PREEMPTED)
    await sweep(api.plane)
    (job,) = await now(api, [job])
    assert (job.fence, job.pool, len(platform.launches)) == (2, "cloud", 2)


async def test_a_target_that_is_not_there_is_refused(api: Api) -> None:
    experiment = await api.experiment()
    bad = overflowing(overflow={"target": "moon", "after_seconds": 1}).model_dump(mode="json")
    path = f"/experiments/{experiment.id}/units"
    refusal = await api.refused("POST", path, 404, {"units": [{"jobs": [bad]}]})
    assert "moon" in refusal.detail
    assert "cloud" in refusal.remedy


async def test_a_group_that_goes_while_it_gathers_does_not_hold_up_others(
    api: Api, platform: MemoryPlatform
) -> None:
    jobs = await add(api, [overflowing("a"), overflowing("b")])
    api.clock.advance(AFTER - timedelta(seconds=5))
    ant, bee = [await api.session(name, slots=1) for name in ("ant", "bee")]
    assert len((await ask(api, ant, 1)).reservations) == 1
    await later(api, timedelta(seconds=5))
    assert [job.pool for job in await now(api, jobs)] == ["cloud", "cloud"]
    await api.session("cat", slots=1)
    others = await add(api, [new_job("c"), new_job("d")])
    (kept,) = (await ask(api, bee, 1)).reservations
    assert kept.job_id == others[0].id
