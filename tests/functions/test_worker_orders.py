"""What people ask of workers over HTTP: what they do, to drain and to stop, and statistics."""

from typing import Any

import pytest

from tests.functions.api import Api, finished
from tests.support.clock import START
from xmcloud.core.models import Job, Outcome, Session, Statistics, Wanted
from xmcloud.core.protocol import Sessions, WorkerStatus

pytestmark = pytest.mark.anyio

CLAIM = {"slots": 8, "queues": ["default"]}


def used(*percent: float | None) -> Statistics:
    return Statistics(start=START, step_seconds=5.0, series={"cpu-percent": percent})


def measured(job: Job, *percent: float | None) -> dict[str, Any]:
    told = used(*percent).model_dump(mode="json")
    return {"event": "measured", "job_id": job.id, "fence": job.fence, "statistics": told}


async def test_a_worker_and_what_it_does(api: Api) -> None:
    session = await api.session(gpus=["0 T4"], resources={"cpu": 4})
    other = await api.session("bee")
    job = await api.running(await api.job(), session)
    status = await api.get(WorkerStatus, "/workers/ant")
    assert (status.session.id, status.session.gpus) == (session.id, ("0 T4",))
    assert (status.session.wanted, status.statistics) == (Wanted.RUN, None)
    assert [each.id for each in status.jobs] == [job.id]
    assert (await api.get(WorkerStatus, "/workers/bee")) == WorkerStatus(session=other, jobs=[])
    await api.sync(session, reports=[finished(job)])
    assert (await api.get(WorkerStatus, "/workers/ant")).jobs == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("POST", "/drain"),
        ("POST", "/resume"),
        ("POST", "/stop"),
    ],
)
async def test_a_worker_that_is_not_connected(api: Api, method: str, path: str) -> None:
    found = await api.refused(method, f"/workers/ant{path}", 404)
    assert found.detail == "There is no connected worker 'ant'."
    session = await api.session()
    await api.call(method, f"/workers/ant{path}")
    await api.post(Session, f"/sessions/{session.id}/close")
    await api.refused(method, f"/workers/ant{path}", 404)
    found = await api.refused(method, f"/workers/Not%20one{path}", 422)
    assert found.field == "path.name"


async def test_a_drained_worker_gets_nothing_until_it_is_resumed(api: Api) -> None:
    session = await api.session()
    first = await api.running(await api.job(), session)
    second = await api.job()
    ordered = await api.post(Session, "/workers/ant/drain")
    assert ordered.wanted is Wanted.DRAIN
    answer = await api.sync(session, claim=CLAIM)
    assert (answer.wanted, answer.jobs) == (Wanted.DRAIN, [])
    answer = await api.sync(session, reports=[finished(first)])
    assert [result.problem for result in answer.results] == [None]
    (listed,) = (await api.get(Sessions, "/workers")).sessions
    assert listed.wanted is Wanted.DRAIN
    assert (await api.post(Session, "/workers/ant/resume")).wanted is Wanted.RUN
    answer = await api.sync(session, claim=CLAIM)
    assert (answer.wanted, [job.id for job in answer.jobs]) == (Wanted.RUN, [second.id])


async def test_a_drained_worker_that_is_started_again_stays_drained(api: Api) -> None:
    await api.session()
    await api.post(Session, "/workers/ant/drain")
    again = await api.session()
    assert again.wanted is Wanted.DRAIN
    await api.post(Session, "/workers/ant/stop")
    assert (await api.session()).wanted is Wanted.RUN


async def test_a_worker_that_is_to_stop_hears_so_and_gets_nothing(api: Api) -> None:
    session = await api.session()
    await api.job()
    for _ in range(2):
        assert (await api.post(Session, "/workers/ant/stop")).wanted is Wanted.STOP
    answer = await api.sync(session, claim=CLAIM)
    assert (answer.wanted, answer.jobs) == (Wanted.STOP, [])


async def test_what_the_machine_used(api: Api) -> None:
    session = await api.session()
    for told in (used(10), used(10, None, 30)):
        await api.sync(session, statistics=told)
        assert (await api.get(WorkerStatus, "/workers/ant")).statistics == told
    again = await api.session()
    await api.sync(again)
    assert (await api.get(WorkerStatus, "/workers/ant")).statistics == told


async def test_what_a_job_used(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    found = await api.refused("GET", f"/jobs/{job.id}/statistics", 404)
    assert found.detail.startswith("There is no statistics of attempt '1 of")
    await api.sync(session, reports=[measured(job, 10)])
    assert await api.get(Statistics, f"/jobs/{job.id}/statistics") == used(10)
    reports = [measured(job, 10, None, 30), finished(job, "failed")]
    answer = await api.sync(session, reports=reports)
    assert [result.problem for result in answer.results] == [None, None]
    assert await api.get(Statistics, f"/jobs/{job.id}/statistics") == used(10, None, 30)


async def test_each_attempt_has_its_own_statistics(api: Api) -> None:
    session = await api.session()
    job = await api.job(limits={"retries": 1})
    for percent in (10, 20):
        mine = await api.running(job, session)
        await api.sync(session, reports=[measured(mine, percent), finished(mine, "failed")])
    path = f"/jobs/{job.id}/statistics"
    assert await api.get(Statistics, path) == used(20)
    assert await api.get(Statistics, path, fence=1) == used(10)
    await api.refused("GET", f"{path}?fence=3", 404)
    found = await api.refused("GET", f"{path}?fence=0", 422)
    assert found.field == "query.fence"


async def test_statistics_of_an_attempt_that_lost_its_job_are_refused(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    stale = job.evolve(fence=1)
    await api.sync(session, reports=[finished(job, Outcome.RELEASED)])
    answer = await api.sync(session, reports=[measured(stale, 99)])
    problem = answer.results[0].problem
    assert problem is not None
    assert problem.status == 409
    await api.refused("GET", f"/jobs/{job.id}/statistics", 404)


@pytest.mark.parametrize(
    "change",
    [{"step_seconds": 0}, {"series": {"CPU": [1]}}, {"series": {"cpu-percent": [1.0] * 241}}],
)
async def test_statistics_that_are_not_any(api: Api, change: dict[str, Any]) -> None:
    session = await api.session()
    told = used(1).model_dump(mode="json") | change
    await api.refused("POST", f"/sessions/{session.id}/sync", 422, {"statistics": told})
    assert (await api.get(WorkerStatus, "/workers/ant")).statistics is None
