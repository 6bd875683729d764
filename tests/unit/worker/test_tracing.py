"""What a worker does for a job belongs to the trace of the job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.builders import JOB_ID, session, starting
from tests.support.clock import START
from tests.support.wire import TransportWire
from xmcloud.core import trace
from xmcloud.core.models import Job, Outcome, ReasonCode
from xmcloud.core.trace import Trace
from xmcloud.core.worker_protocol import Lease, ReportResult, Sync, SyncAnswer
from xmcloud.worker.client import ApiClient
from xmcloud.worker.identity import Places, job_environment
from xmcloud.worker.news import News
from xmcloud.worker.preparation import base_environment
from xmcloud.worker.reasons import ending
from xmcloud.worker.sync import Conversation
from xmcloud.worker.tracing import context_of, traced, traced_attempt

pytestmark = pytest.mark.anyio

TRACE = Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
PLACES = Places("/results", "/outputs", "/checkpoint")


def job(**changes: object) -> Job:
    return starting().evolve(trace=str(TRACE), **changes)


async def test_a_task_for_a_job_works_in_its_trace() -> None:
    seen: list[Trace | None] = []

    async def work() -> None:
        seen.append(trace.current())

    await asyncio.create_task(work(), context=context_of(job()))
    await asyncio.create_task(work(), context=context_of(job().evolve(trace="")))
    assert seen == [TRACE, None]
    assert trace.current() is None


async def test_an_attempt_is_a_span_below_it() -> None:
    came_to = ending(Outcome.FAILED, ReasonCode.EXITED, "exit code 1")
    seen: list[Trace | None] = []

    async def work() -> object:
        seen.append(trace.current())
        return came_to

    with trace.within(TRACE):
        assert await traced_attempt(job(), work()) == came_to  # type: ignore[arg-type]
    (inside,) = seen
    assert inside is not None
    assert inside.trace_id == TRACE.trace_id
    assert inside.span_id != TRACE.span_id


def test_requests_for_a_job_carry_its_trace_and_others_are_not_to_be_recorded() -> None:
    with trace.within(TRACE), traced("GET", "/v1/blobs/x?y") as headers:
        mine = Trace.parse(headers["traceparent"])
    assert mine is not None
    assert (mine.trace_id, mine.sampled) == (TRACE.trace_id, True)
    with traced("POST", "/v1/messages/pull") as headers:
        other = Trace.parse(headers["traceparent"])
    assert other is not None
    assert other.trace_id != TRACE.trace_id
    assert not other.sampled


def test_the_process_of_a_job_is_told_unless_the_job_says_otherwise() -> None:
    assert job_environment(job(), PLACES)["TRACEPARENT"] == str(TRACE)
    assert "TRACEPARENT" not in job_environment(job().evolve(trace=""), PLACES)
    own = job().spec.evolve(environment={"TRACEPARENT": "mine"})
    assert "TRACEPARENT" not in job_environment(job(spec=own), PLACES)


def test_jobs_inherit_nothing_of_the_worker_s_own_telemetry() -> None:
    inherited = {
        "PATH": "/bin",
        "TRACEPARENT": str(TRACE),
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
    }
    assert base_environment(inherited) == {"PATH": "/bin"}


class Listening(httpx.AsyncBaseTransport):
    """Takes every report and notes the trace that it came in."""

    def __init__(self) -> None:
        self.traces: asyncio.Queue[Trace | None] = asyncio.Queue()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reports = Sync.model_validate_json(request.content).reports
        results = [ReportResult(job_id=r.job_id, fence=r.fence) for r in reports]
        answer = SyncAnswer(lease_expires_at=START, results=results)
        self.traces.put_nowait(Trace.parse(request.headers["traceparent"]))
        return httpx.Response(200, text=answer.model_dump_json(), request=request)


@asynccontextmanager
async def talking() -> AsyncIterator[tuple[Conversation, Listening]]:
    server = Listening()
    lease = Lease(session=session(), lease_seconds=1800, heartbeat_seconds=600)
    async with ApiClient(TransportWire(server, "token"), "http://api") as client:
        conversation = Conversation(client, lease, None)  # type: ignore[arg-type]
        task = asyncio.create_task(conversation.run())
        yield conversation, server
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize(("others", "same"), [((), True), ((str(TRACE),), True), (("",), False)])
async def test_news_of_one_trace_go_in_it(
    tmp_path: Path, others: tuple[str, ...], same: bool
) -> None:
    async with talking() as (conversation, server):
        for index, of in enumerate((str(TRACE), *others)):
            folder = tmp_path / str(index)
            folder.mkdir()
            id, log = f"{JOB_ID[:-1]}{'abc'[index]}", folder / "log"
            news = News(id, 1, log, lambda problem: None, trace=of)
            news.started(START)
            conversation.add(news)
        conversation.wake()
        async with asyncio.timeout(20):
            seen = await server.traces.get()
    assert seen is not None
    assert (seen.trace_id == TRACE.trace_id) is same
    assert seen.sampled is same


async def test_output_goes_in_the_trace_and_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"loss 0.3\n")
    async with talking() as (conversation, server):
        news = News(JOB_ID, 1, tmp_path / "log", lambda problem: None, trace=str(TRACE))
        conversation.add(news)
        conversation.wake()
        async with asyncio.timeout(20):
            seen = await server.traces.get()
    assert seen is not None
    assert (seen.trace_id, seen.sampled) == (TRACE.trace_id, False)
