"""What workers speak: sessions, syncs and messages over HTTP."""

import base64
from typing import Any

import pytest

from tests.functions.api import Api, finished, new_job, started
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode, Session
from xmcloud.core.protocol import LogSlice, Sessions
from xmcloud.core.topics import control_audience
from xmcloud.core.worker_protocol import Lease, Pulled

pytestmark = pytest.mark.anyio


async def test_a_session_and_its_rhythm(api: Api) -> None:
    body = {"pool": "gpu", "slots": 2, "resources": {"cpu": 8}, "host": "box", "version": "1"}
    lease = await api.post(Lease, "/workers/ant/sessions", body, 201)
    assert (lease.lease_seconds, lease.heartbeat_seconds) == (30, 10)
    assert (lease.session.worker, lease.session.pool, lease.session.host) == ("ant", "gpu", "box")
    assert (await api.get(Sessions, "/workers")).sessions == [lease.session]
    closed = await api.post(Session, f"/sessions/{lease.session.id}/close")
    assert closed.closed_at == api.clock.now()
    assert (await api.get(Sessions, "/workers")).sessions == []
    assert await api.post(Session, f"/sessions/{lease.session.id}/close") == closed


async def test_a_session_that_cannot_be(api: Api) -> None:
    found = await api.refused("POST", "/workers/ant/sessions", 404, {"queues": ["nightly"]})
    assert found.detail == "There is no queue 'nightly'."
    for body, field in (
        ({"slots": 0}, "body.slots"),
        ({"queues": []}, "body.queues"),
        ({"resources": {"cpu": -1}}, "body.resources.cpu"),
    ):
        found = await api.refused("POST", "/workers/ant/sessions", 422, body)
        assert found.field == field
    found = await api.refused("POST", "/workers/Not%20a%20name/sessions", 422, {})
    assert found.field == "path.name"


async def test_a_session_that_nobody_opened(api: Api) -> None:
    for action in ("sync", "close"):
        found = await api.refused("POST", f"/sessions/{'a' * 16}/{action}", 404, {})
        assert found.detail == f"There is no session '{'a' * 16}'."
        found = await api.refused("POST", f"/sessions/short/{action}", 422, {})
        assert found.field == "path.id"


async def test_a_job_from_claim_to_end(api: Api) -> None:
    job, session = await api.job(), await api.session()
    (mine,) = await api.claimed(session)
    assert (mine.id, mine.state, mine.fence) == (job.id, JobState.STARTING, 1)
    output = {"event": "output", "job_id": job.id, "fence": 1, "offset": 0}
    output["data"] = base64.b64encode(b"loss 0.3\n").decode()
    results: dict[str, Any] = {"accuracy": 0.97, "confusion": [[1, 2], [3, 4]], "note": "é"}
    reports = [started(mine), output, finished(mine, **results)]
    answer = await api.sync(session, reports=reports)
    assert [(r.job_id, r.fence, r.problem) for r in answer.results] == [(job.id, 1, None)] * 3
    ended = await api.get(Job, f"/jobs/{job.id}")
    assert (ended.state, ended.results) == (JobState.COMPLETED, results)
    assert (ended.reason.code, ended.reason.exit_code) == (ReasonCode.EXITED, 0)
    log = await api.get(LogSlice, f"/jobs/{job.id}/log")
    assert (log.fence, log.data, log.complete) == (1, b"loss 0.3\n", True)


async def test_a_stale_report_is_refused_by_itself(api: Api) -> None:
    session = await api.session()
    experiment = await api.experiment()
    await api.jobs(experiment, new_job("a"), new_job("b"))
    first, second = await api.claimed(session)
    stale = {**started(first), "fence": 7}
    absent = {**started(first), "job_id": "z" * 16}
    answer = await api.sync(session, reports=[stale, started(second), absent])
    problems = [result.problem for result in answer.results]
    assert problems[0] is not None
    assert (problems[0].status, problems[0].type) == (409, "urn:xmcloud:problem:stale-fence")
    assert problems[0].remedy == "Abort its process and discard its results."
    assert problems[1] is None
    assert problems[2] is not None
    assert problems[2].status == 404
    assert (await api.get(Job, f"/jobs/{first.id}")).state is JobState.STARTING
    assert (await api.get(Job, f"/jobs/{second.id}")).state is JobState.RUNNING


async def test_an_attempt_ends_once(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    await api.sync(session, reports=[finished(job, "failed")])
    answer = await api.sync(session, reports=[finished(job, "completed")])
    problem = answer.results[0].problem
    assert problem is not None
    assert problem.status == 409
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.FAILED


async def test_results_that_are_too_large(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    answer = await api.sync(session, reports=[finished(job, blob="x" * 17_000)])
    problem = answer.results[0].problem
    assert problem is not None
    assert (problem.status, problem.type) == (413, "urn:xmcloud:problem:too-large")


@pytest.mark.parametrize(
    "report",
    [
        {"event": "vanished"},
        {"event": "started", "job_id": "a" * 16, "fence": 0, "at": "2030-01-01T00:00:00Z"},
        {"event": "started", "job_id": "a" * 16, "fence": 1, "at": "2030-01-01T00:00:00"},
        {"event": "started", "job_id": "a" * 16, "fence": 1, "at": "0001-01-01T00:00:00+14:00"},
        {"event": "started", "job_id": "a" * 16, "fence": 1, "at": "9999-12-31T23:59:59-14:00"},
        {"event": "output", "job_id": "a" * 16, "fence": 1, "offset": 0, "data": ""},
        {"event": "output", "job_id": "a" * 16, "fence": 1, "offset": -1, "data": "YQ=="},
        {"event": "output", "job_id": "a" * 16, "fence": 1, "offset": 0, "data": "not base64"},
    ],
)
async def test_a_report_that_is_wrong(api: Api, report: Any) -> None:
    session = await api.session()
    path = f"/sessions/{session.id}/sync"
    found = await api.refused("POST", path, 422, {"reports": [report]})
    assert (found.field or "").startswith("body.reports.0")


async def test_a_start_long_ago_can_be_read_again(api: Api) -> None:
    session = await api.session()
    await api.job()
    (mine,) = await api.claimed(session)
    report = {**started(mine), "at": "0042-01-01T00:00:00Z"}
    await api.sync(session, reports=[report])
    job = await api.get(Job, f"/jobs/{mine.id}")
    assert job.attempt is not None
    assert job.attempt.started_at is not None
    assert job.attempt.started_at.year == 42


async def test_a_lease_ends_at_its_instant(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    api.clock.advance(29.999999)
    answer = await api.sync(session)
    assert (answer.lease_expires_at - api.clock.now()).total_seconds() == 30
    api.clock.advance(30)
    path = f"/sessions/{session.id}/sync"
    found = await api.refused("POST", path, 409, {"reports": [finished(job)]})
    assert found.type == "urn:xmcloud:problem:lease-lost"
    assert found.remedy == "Abort its processes and open a new session."
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.RUNNING
    await sweep(api.plane)
    waiting = await api.get(Job, f"/jobs/{job.id}")
    assert (waiting.state, waiting.losses) == (JobState.QUEUED, 1)
    assert waiting.attempts[-1].outcome is Outcome.LOST


async def test_a_worker_that_starts_again_loses_what_it_ran(api: Api) -> None:
    first = await api.session("ant")
    job = await api.running(await api.job(), first)
    second = await api.session("ant")
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.QUEUED
    found = await api.refused(
        "POST", f"/sessions/{first.id}/sync", 409, {"reports": [finished(job)]}
    )
    assert found.type == "urn:xmcloud:problem:lease-lost"
    (again,) = await api.claimed(second)
    assert (again.id, again.fence) == (job.id, 2)


async def test_an_answer_that_got_lost_comes_again(api: Api) -> None:
    session = await api.session()
    experiment = await api.experiment()
    await api.jobs(experiment, new_job("a"), new_job("b"))
    first, second = await api.claimed(session)
    known = [{"job_id": first.id, "fence": first.fence}]
    assert (await api.sync(session, known=known)).jobs == [second]
    assert (await api.sync(session, known=[])).jobs == sorted(
        [first, second], key=lambda job: job.id
    )
    assert (await api.sync(session)).jobs == []


async def test_a_worker_hears_what_to_stop(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    await api.post(Job, f"/jobs/{job.id}/stop", {"by": "ada", "message": "enough"})
    audience = control_audience(session.id)
    pull = {"subscriptions": [{"topic": "control", "audience": audience}], "wait_seconds": 0}
    (told,) = (await api.post(Pulled, "/messages/pull", pull)).deliveries
    assert (told.audience, told.body) == (audience, "news")
    assert (await api.sync(session)).stops == []
    (order,) = (await api.sync(session, watch_stops=True)).stops
    assert (order.job_id, order.fence, order.message) == (job.id, 1, "enough")
    await api.sync(session, reports=[finished(job, "failed")])
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.STOPPED


async def test_released_jobs_wait_again(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    reason = {"code": "worker_stopped", "message": "the worker leaves"}
    released = {**finished(job, "released"), "reason": reason}
    await api.sync(session, reports=[released])
    waiting = await api.get(Job, f"/jobs/{job.id}")
    assert (waiting.state, waiting.failures) == (JobState.QUEUED, 0)


async def test_a_claim_says_what_is_left_of_each_queue(api: Api) -> None:
    experiment = await api.experiment()
    await api.jobs(
        experiment,
        new_job("a"),
        new_job("b"),
        new_job("large", "low", resources={"memory": 1e12}),
    )
    session = await api.session()
    claim = {"slots": 1, "queues": ["high", "default"], "resources": {"memory": 1e9}}
    answer = await api.sync(session, claim=claim)
    assert [(q.name, q.answer, q.taken) for q in answer.queues] == [
        ("high", "empty", 0),
        ("default", "more", 1),
    ]
    answer = await api.sync(session, claim={**claim, "queues": ["low"]})
    assert [(q.name, q.answer, q.taken) for q in answer.queues] == [("low", "unfit", 0)]
    answer = await api.sync(session, claim={**claim, "queues": ["nightly"]})
    assert [(q.name, q.answer, q.taken) for q in answer.queues] == [("nightly", "empty", 0)]


async def test_permits_through_the_api(api: Api) -> None:
    await api.session(queues=["default"])
    job = await api.job()
    permits = {"topic": "queue-default", "audience": "local"}
    pull = {"subscriptions": [permits], "limit": 5}
    (delivery,) = (await api.post(Pulled, "/messages/pull", pull)).deliveries
    assert (delivery.audience, delivery.body) == ("", job.id)
    body = {"deliveries": [delivery.model_dump(mode="json")]}
    await api.call("POST", "/messages/settle", {**body, "delay_seconds": 0}, 204)
    (again,) = (await api.post(Pulled, "/messages/pull", pull)).deliveries
    body = {"deliveries": [again.model_dump(mode="json")]}
    await api.call("POST", "/messages/settle", body, 204)
    await api.call("POST", "/messages/settle", body, 204)
    assert (await api.post(Pulled, "/messages/pull", pull)).deliveries == []


async def test_messages_that_are_not_there(api: Api) -> None:
    nowhere = {"topic": "queue-default", "audience": "nobody"}
    await api.refused("POST", "/messages/pull", 404, {"subscriptions": [nowhere]})
    for receipt in ("", "x", "1:2", "-1", "9" * 1000, "é"):
        deliveries = [{"subscription": nowhere, "receipt": receipt}]
        for delay in (None, 0):
            body = {"deliveries": deliveries, "delay_seconds": delay}
            await api.call("POST", "/messages/settle", body, 204)
    for delay in (-1, 601):
        body = {"deliveries": deliveries, "delay_seconds": delay}
        await api.refused("POST", "/messages/settle", 422, body)
