"""Requests that wait for news: they end with it, or at their deadline."""

import asyncio
import base64
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.functions.api import Api, finished, new_job
from xmcloud.core.models import Job, JobState, Session
from xmcloud.core.protocol import Changes, LogSlice
from xmcloud.core.worker_protocol import Pulled

pytestmark = pytest.mark.anyio

T = TypeVar("T")


async def begun(api: Api, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The request, once it has begun to listen."""
    api.signals.heard.clear()
    task = asyncio.create_task(request)
    await asyncio.wait_for(api.signals.heard.wait(), 10)
    return task


async def output(api: Api, session: Session, job: Job, offset: int, data: bytes) -> None:
    report = {"event": "output", "job_id": job.id, "fence": job.fence, "offset": offset}
    report["data"] = base64.b64encode(data).decode()
    answer = await api.sync(session, reports=[report])
    assert answer.results[0].problem is None


async def test_changes_come_when_something_changed(api: Api) -> None:
    experiment = await api.experiment()
    (job,) = await api.jobs(experiment, new_job())
    path = f"/experiments/{experiment.id}/changes"
    first = await api.get(Changes, path)
    assert [changed.id for changed in first.jobs] == [job.id]
    api.clock.advance(5)
    waiting = await begun(api, api.get(Changes, path, since=first.cursor, wait_seconds=50))
    stopped = await api.post(Job, f"/jobs/{job.id}/stop", {})
    second = await waiting
    assert stopped in second.jobs
    nothing = await api.get(Changes, path, since=second.cursor)
    assert (nothing.jobs, nothing.cursor) == ([], second.cursor)


async def test_changes_come_with_new_units(api: Api) -> None:
    experiment = await api.experiment()
    path = f"/experiments/{experiment.id}/changes"
    first = await api.get(Changes, path)
    waiting = await begun(api, api.get(Changes, path, since=first.cursor, wait_seconds=50))
    (job,) = await api.jobs(experiment, new_job())
    assert [changed.id for changed in (await waiting).jobs] == [job.id]


async def test_changes_end_at_the_deadline(api: Api) -> None:
    experiment = await api.experiment()
    path = f"/experiments/{experiment.id}/changes"
    first = await api.get(Changes, path)
    waiting = await begun(api, api.get(Changes, path, since=first.cursor, wait_seconds=50))
    api.clock.advance(50)
    assert await waiting == Changes(jobs=[], cursor=first.cursor)


@pytest.mark.parametrize("since", ["", "yesterday", "2030-01-01T00:00:00", "2030-01-01", "~"])
async def test_a_cursor_of_changes_that_was_never_given(api: Api, since: str) -> None:
    experiment = await api.experiment()
    path = f"/experiments/{experiment.id}/changes"
    found = await api.refused("GET", path, 422, params={"since": since})
    assert found.field == "since"
    await api.refused("GET", f"/experiments/{'e' * 16}/changes", 404)


@pytest.mark.parametrize("seconds", ["-1", "51", "nan", "inf", "soon"])
async def test_a_wait_that_is_none(api: Api, seconds: str) -> None:
    job = await api.job()
    for path in (f"/experiments/{job.experiment_id}/changes", f"/jobs/{job.id}/log"):
        found = await api.refused("GET", path, 422, params={"wait_seconds": seconds})
        assert found.field == "query.wait_seconds"


async def test_a_log_waits_for_output(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    path = f"/jobs/{job.id}/log"
    waiting = await begun(api, api.get(LogSlice, path, wait_seconds=50))
    await output(api, session, job, 0, b"one")
    found = await waiting
    assert (found.fence, found.offset, found.data, found.complete) == (1, 0, b"one", False)


async def test_a_log_that_waits_ends_with_the_attempt(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    waiting = await begun(api, api.get(LogSlice, f"/jobs/{job.id}/log", wait_seconds=50))
    await api.sync(session, reports=[finished(job)])
    found = await waiting
    assert (found.data, found.complete) == (b"", True)


async def test_a_log_of_a_waiting_job_waits_for_its_first_attempt(api: Api) -> None:
    job, session = await api.job(), await api.session()
    waiting = await begun(api, api.get(LogSlice, f"/jobs/{job.id}/log", wait_seconds=50))
    mine = await api.running(job, session)
    await output(api, session, mine, 0, b"one")
    found = await waiting
    assert (found.fence, found.data) == (1, b"one")


async def test_a_log_ends_at_the_deadline(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    waiting = await begun(api, api.get(LogSlice, f"/jobs/{job.id}/log", wait_seconds=20))
    api.clock.advance(20)
    found = await waiting
    assert (found.data, found.complete) == (b"", False)


async def test_a_log_in_pieces_that_overlap(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    for offset, data in ((0, b"abcd"), (2, b"cdef"), (4, b"ef"), (6, b"gh"), (10, b"later")):
        await output(api, session, job, offset, data)
    path = f"/jobs/{job.id}/log"
    for offset in range(9):
        found = await api.get(LogSlice, path, offset=offset)
        assert (found.offset, found.data) == (offset, b"abcdefgh"[offset:])
    assert (await api.get(LogSlice, path, offset=12)).data == b"ter"
    await output(api, session, job, 8, b"ij")
    assert (await api.get(LogSlice, path)).data == b"abcdefghijlater"


async def test_logs_of_attempts_are_apart(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(limits={"retries": 1}), session)
    await output(api, session, job, 0, b"first")
    await api.sync(session, reports=[finished(job, "failed")])
    again = await api.running(job, session)
    await output(api, session, again, 0, b"second")
    path = f"/jobs/{job.id}/log"
    assert (await api.get(LogSlice, path)).data == b"second"
    first = await api.get(LogSlice, path, fence=1)
    assert (first.data, first.complete) == (b"first", True)


async def test_a_log_is_read_a_mebibyte_at_a_time(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    half = 700_000
    await output(api, session, job, 0, b"a" * half)
    await output(api, session, job, half, b"b" * half)
    await api.sync(session, reports=[finished(job)])
    path = f"/jobs/{job.id}/log"
    first = await api.get(LogSlice, path)
    assert (len(first.data), first.complete) == (1024 * 1024, False)
    rest = await api.get(LogSlice, path, offset=1024 * 1024)
    assert (len(rest.data), rest.complete) == (2 * half - 1024 * 1024, True)
    assert first.data + rest.data == b"a" * half + b"b" * half


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"fence": 0}, "query.fence"),
        ({"fence": 10**12}, "query.fence"),
        ({"offset": -1}, "query.offset"),
        ({"offset": 10**16}, "query.offset"),
    ],
)
async def test_a_part_of_a_log_that_is_none(api: Api, query: dict[str, int], field: str) -> None:
    job = await api.job()
    found = await api.refused("GET", f"/jobs/{job.id}/log", 422, params=query)
    assert found.field == field


async def test_a_log_of_a_draft_is_empty(api: Api) -> None:
    job = await api.job(queue=None)
    found = await api.get(LogSlice, f"/jobs/{job.id}/log")
    assert (job.state, found.data) == (JobState.DRAFT, b"")
    await api.refused("GET", f"/jobs/{'e' * 16}/log", 404)


async def test_a_pull_waits_for_a_permit(api: Api) -> None:
    await api.session(queues=["default"])
    permits = {"topic": "queue-default", "audience": "local"}
    pull = {"subscriptions": [permits], "wait_seconds": 50}
    waiting = asyncio.create_task(api.post(Pulled, "/messages/pull", pull))
    await asyncio.sleep(0)
    job = await api.job()
    assert [delivery.body for delivery in (await waiting).deliveries] == [job.id]
