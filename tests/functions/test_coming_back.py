"""A worker that comes back goes on with what it still runs, unless somebody else has it."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from tests.functions.api import Api, finished, new_job, started
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.protocol import Jobs, LogSlice, NewUnit, NewUnits
from xmcloud.core.worker_protocol import Lease

pytestmark = pytest.mark.anyio


async def back(api: Api, *jobs: Job, worker: str = "ant") -> Lease:
    """The lease of its next session; it says that it holds those attempts."""
    holds = [{"job_id": job.id, "fence": job.fence} for job in jobs]
    path = f"/workers/{worker}/sessions"
    return await api.post(Lease, path, {"slots": 8, "holds": holds}, 201)


def output(job: Job, offset: int, text: bytes) -> dict[str, Any]:
    data = base64.b64encode(text).decode()
    return {
        "event": "output", "job_id": job.id, "fence": job.fence, "offset": offset, "data": data,
    }  # fmt: skip


async def test_its_attempt_goes_on_where_it_was(api: Api) -> None:
    job = await api.job()
    first = await api.session()
    mine = await api.running(job, first)
    await api.sync(first, reports=[output(mine, 0, b"one\n")])
    lease = await back(api, mine)
    ((held),) = lease.held
    assert (held.job.state, held.job.fence, held.output) == (JobState.RUNNING, 1, 4)
    assert (await api.refused("POST", f"/sessions/{first.id}/sync", 409, {})).title
    await api.sync(lease.session, reports=[output(mine, 4, b"two\n"), finished(mine)])
    ended = await api.get(Job, f"/jobs/{job.id}")
    assert (ended.state, len(ended.attempts)) == (JobState.COMPLETED, 1)
    assert (await api.get(LogSlice, f"/jobs/{job.id}/log")).data == b"one\ntwo\n"


async def test_what_it_does_not_hold_runs_again(api: Api) -> None:
    experiment, session = await api.experiment(), await api.session()
    await api.jobs(experiment, new_job("kept"), new_job("gone"))
    kept, gone = await api.claimed(session)
    lease = await back(api, kept)
    assert [held.job.id for held in lease.held] == [kept.id]
    assert lease.held[0].job.state is JobState.STARTING
    again = await api.get(Job, f"/jobs/{gone.id}")
    assert (again.state, again.losses) == (JobState.QUEUED, 1)


async def test_what_was_given_up_for_lost_goes_on_while_nobody_has_it(api: Api) -> None:
    job = await api.job()
    mine = await api.running(job, await api.session())
    api.clock.advance(timedelta(minutes=10))
    await sweep(api.plane)
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.QUEUED
    lease = await back(api, mine)
    (held,) = lease.held
    assert (held.job.state, held.job.fence, held.job.losses) == (JobState.RUNNING, 1, 0)
    assert held.job.reason.code is ReasonCode.RESUMED
    assert await api.claimed(await api.session("bee")) == []
    await api.sync(lease.session, reports=[finished(mine)])
    ended = await api.get(Job, f"/jobs/{job.id}")
    assert [attempt.outcome for attempt in ended.attempts] == [Outcome.COMPLETED]


async def test_what_another_worker_has_by_then_is_over(api: Api) -> None:
    job = await api.job()
    mine = await api.running(job, await api.session())
    api.clock.advance(timedelta(minutes=10))
    await sweep(api.plane)
    other = await api.session("bee")
    (theirs,) = await api.claimed(other)
    lease = await back(api, mine)
    assert lease.held == []
    (result,) = (await api.sync(lease.session, reports=[finished(mine)])).results
    assert result.problem is not None
    assert (await api.get(Job, f"/jobs/{job.id}")).attempt == theirs.attempt


@pytest.mark.parametrize("action", ["stop", "dequeue"])
async def test_what_people_ended_meanwhile_stays_ended(api: Api, action: str) -> None:
    job = await api.job()
    mine = await api.running(job, await api.session())
    api.clock.advance(timedelta(minutes=10))
    await sweep(api.plane)
    before = await api.post(Job, f"/jobs/{job.id}/{action}")
    assert (await back(api, mine)).held == []
    assert await api.get(Job, f"/jobs/{job.id}") == before


async def test_nobody_takes_over_what_another_worker_holds(api: Api) -> None:
    job = await api.job()
    session = await api.session()
    mine = await api.running(job, session)
    assert (await back(api, mine, worker="bee")).held == []
    assert (await api.get(Job, f"/jobs/{job.id}")).attempt == mine.attempt


async def test_asked_again_after_a_lost_answer_it_is_the_same(api: Api) -> None:
    job = await api.job()
    mine = await api.running(job, await api.session())
    first, second = await back(api, mine), await back(api, mine)
    assert [held.job.fence for held in second.held] == [1]
    assert second.session.id != first.session.id
    assert len((await api.get(Job, f"/jobs/{job.id}")).attempts) == 1


async def test_a_stop_that_was_asked_for_meanwhile_is_told(api: Api) -> None:
    job = await api.job()
    mine = await api.running(job, await api.session())
    await api.post(Job, f"/jobs/{job.id}/stop", {"by": "ann"})
    lease = await back(api, mine)
    answer = await api.sync(lease.session, watch_stops=True)
    assert [order.job_id for order in answer.stops] == [job.id]


async def test_a_group_goes_on_under_the_new_session_but_is_not_taken_up_once_lost(
    api: Api,
) -> None:
    experiment = await api.experiment()
    unit = NewUnits(units=(NewUnit(jobs=(new_job("a"), new_job("b"))),))
    jobs = (await api.post(Jobs, f"/experiments/{experiment.id}/units", unit, 201)).jobs
    session = await api.session()
    claim = {"slots": 8, "queues": ("default",), "ports": (5001, 5002)}
    both = (await api.sync(session, claim=claim)).jobs
    await api.sync(session, reports=[started(each) for each in both])
    lease = await back(api, *both)
    assert sorted(held.job.name for held in lease.held) == ["a", "b"]
    api.clock.advance(timedelta(minutes=10))
    await sweep(api.plane)
    assert (await back(api, *both)).held == []
    states = {(await api.get(Job, f"/jobs/{job.id}")).state for job in jobs}
    assert states == {JobState.QUEUED}
