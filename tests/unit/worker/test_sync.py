"""What goes together in one request; the server is a fake that answers when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.builders import session
from tests.support.clock import START
from tests.support.wire import TransportWire
from xmcloud.core.models import Job, Outcome, ReasonCode
from xmcloud.core.protocol import (
    Claim,
    Lease,
    Problem,
    ReportResult,
    StopOrder,
    Sync,
    SyncAnswer,
)
from xmcloud.worker.client import ApiClient
from xmcloud.worker.news import News
from xmcloud.worker.reasons import ending
from xmcloud.worker.sync import Conversation

pytestmark = pytest.mark.anyio

LONG = 20.0
"""Seconds; ends a test that would fail, delays none that passes."""


class Server(httpx.AsyncBaseTransport):
    """Hands each request to the test and sends what the test answers."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Sync] = asyncio.Queue()
        self._answers: asyncio.Queue[httpx.Response] = asyncio.Queue()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._arrived.put_nowait(Sync.model_validate_json(request.content))
        response = await self._answers.get()
        response.request = request
        return response

    async def request(self) -> Sync:
        async with asyncio.timeout(LONG):
            return await self._arrived.get()

    def accept(self, request: Sync) -> None:
        """Takes every report."""
        results = [ReportResult(job_id=r.job_id, fence=r.fence) for r in request.reports]
        answer = SyncAnswer(lease_expires_at=START, results=results)
        self._answers.put_nowait(httpx.Response(200, text=answer.model_dump_json()))

    def fail(self) -> None:
        self._answers.put_nowait(httpx.Response(503, text="busy"))


class Idle:
    """A crew that has room and remembers nothing."""

    def claim(self, queues: Collection[str]) -> Claim | None:
        return Claim(slots=1, queues=tuple(sorted(queues)))

    def take(self, job: Job) -> None:
        raise AssertionError(job)

    def stop(self, order: StopOrder) -> None:
        raise AssertionError(order)


@asynccontextmanager
async def talking(heartbeat: float = 600.0) -> AsyncIterator[tuple[Conversation, Server]]:
    server = Server()
    lease = Lease(session=session(), lease_seconds=3 * heartbeat, heartbeat_seconds=heartbeat)
    async with ApiClient(TransportWire(server, "token"), "http://api") as client:
        conversation = Conversation(client, lease, Idle())
        task = asyncio.create_task(conversation.run())
        try:
            yield conversation, server
        finally:
            task.cancel()
            await asyncio.wait({task})


def ended(folder: Path, job: str) -> News:
    def refused(problem: Problem) -> None:
        raise AssertionError(problem)

    news = News(job * 16, 1, folder / job, refused)
    news.finished(ending(Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0))
    return news


async def test_what_comes_up_during_a_request_goes_together_in_the_next(tmp_path: Path) -> None:
    async with talking() as (conversation, server):
        conversation.add(ended(tmp_path, "a"))
        conversation.wake()
        first = await server.request()
        for job in "bc":
            conversation.add(ended(tmp_path, job))
            conversation.wake()
        claim = asyncio.create_task(conversation.claim({"default"}))
        await asyncio.sleep(0)
        server.accept(first)
        second = await server.request()
        assert [report.job_id[0] for report in first.reports] == ["a"]
        assert sorted(report.job_id[0] for report in second.reports) == ["b", "c"]
        assert (first.claim, second.claim) == (None, Claim(slots=1, queues=("default",)))
        server.accept(second)
        await claim


async def test_a_stop_that_is_heard_of_during_a_request_is_asked_for_after_it() -> None:
    async with talking() as (conversation, server):
        conversation.wake()
        first = await server.request()
        conversation.watch_stops()
        server.accept(first)
        second = await server.request()
        assert (first.watch_stops, second.watch_stops) == (False, True)


async def test_what_was_asked_for_is_asked_again_when_there_was_no_answer() -> None:
    async with talking() as (conversation, server):
        claim = asyncio.create_task(conversation.claim({"default"}))
        await asyncio.sleep(0)
        conversation.watch_stops()
        first = await server.request()
        server.fail()
        second = await server.request()
        server.accept(second)
        third = await server.request()
        server.accept(third)
        await claim
        assert [each.watch_stops for each in (first, second, third)] == [True, True, False]
        assert [each.claim is not None for each in (first, second, third)] == [True, False, True]
        assert [each.known for each in (first, second, third)] == [None, (), None]


async def test_a_claim_without_an_answer_is_suspected_for_as_long_as_it_may_be_under_way() -> None:
    async with talking() as (conversation, server):
        claim = asyncio.create_task(conversation.claim({"default"}))
        await server.request()
        server.fail()
        for _ in range(2):
            server.accept(await server.request())
        await claim
        conversation.watch_stops()
        assert (await server.request()).known == ()


async def test_stops_are_asked_for_once_a_heartbeat_while_something_runs(tmp_path: Path) -> None:
    async with talking(heartbeat=0.01) as (conversation, server):
        server.accept(await server.request())
        conversation.add(News("a" * 16, 1, tmp_path / "log", lambda problem: None))
        while not (request := await server.request()).watch_stops:
            server.accept(request)


async def test_a_heartbeat_is_sent_when_nothing_else_is() -> None:
    async with talking(heartbeat=0.01) as (_, server):
        for _ in range(2):
            request = await server.request()
            assert request == Sync()
            server.accept(request)
