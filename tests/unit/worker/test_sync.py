"""What goes together in one request; the server is a fake that answers when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.builders import JOB_ID, session, starting
from tests.support.clock import START
from tests.support.wire import TransportWire
from xmcloud.core.models import Job, Outcome, ReasonCode, Wanted
from xmcloud.core.protocol import Problem, Sessions
from xmcloud.core.worker_protocol import (
    AttemptRef,
    Claim,
    Lease,
    ReportResult,
    Reservation,
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

    def accept(self, request: Sync, **more: Any) -> None:
        """Takes every report."""
        results = [ReportResult(job_id=r.job_id, fence=r.fence) for r in request.reports]
        answer = SyncAnswer(lease_expires_at=START, results=results, **more)
        self._answers.put_nowait(httpx.Response(200, text=answer.model_dump_json()))

    def fail(self) -> None:
        self._answers.put_nowait(httpx.Response(503, text="busy"))


class Fast(httpx.AsyncBaseTransport):
    """Lets the second request in."""

    def __init__(self) -> None:
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.requests == 1:
            return httpx.Response(429, headers={"Retry-After": "600"}, request=request)
        text = Sessions(sessions=[]).model_dump_json()
        return httpx.Response(200, text=text, request=request)


async def test_who_came_too_fast_waits_as_long_as_he_is_told_within_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    server = Fast()
    async with ApiClient(TransportWire(server, "token"), "http://api") as client:
        monkeypatch.setattr("xmcloud.worker.client.asyncio.sleep", sleep)
        assert (await client.open_sessions()).sessions == []
        monkeypatch.undo()
    assert (slept, server.requests) == ([5.0], 2)


class Idle:
    """A crew that has room and takes no job."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.taken: list[str] = []

    def claim(self, queues: Collection[str]) -> Claim | None:
        return Claim(slots=1, queues=tuple(sorted(queues)))

    def take(self, job: Job) -> None:
        self.taken.append(job.id)

    def reserve(self, reservation: Reservation) -> None:
        self.kept.append(reservation.job_id)

    def release(self, job_id: str) -> None:
        self.kept.remove(job_id)

    def stop(self, order: StopOrder) -> None:
        raise AssertionError(order)

    def obey(self, wanted: Wanted) -> None:
        self.wanted = wanted


@asynccontextmanager
async def talking(
    heartbeat: float = 600.0, crew: Idle | None = None
) -> AsyncIterator[tuple[Conversation, Server]]:
    server = Server()
    lease = Lease(session=session(), lease_seconds=3 * heartbeat, heartbeat_seconds=heartbeat)
    async with ApiClient(TransportWire(server, "token"), "http://api") as client:
        conversation = Conversation(client, lease, crew or Idle())
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


async def reserving(conversation: Conversation, server: Server, seconds: float) -> None:
    """A claim that is answered with a place for one job."""
    claim = asyncio.create_task(conversation.claim({"default"}))
    reservation = Reservation(job_id=JOB_ID, seconds=seconds)
    server.accept(await server.request(), reservations=[reservation])
    await claim


async def test_a_place_is_kept_until_it_is_heard_that_no_job_came() -> None:
    crew = Idle()
    async with talking(crew=crew) as (conversation, server):
        await reserving(conversation, server, seconds=-1000)
        request = await server.request()
        assert (request.watch_stops, request.known, crew.kept) == (True, (), [JOB_ID])
        server.fail()
        assert await server.request() == request
        assert crew.kept == [JOB_ID]
        server.accept(request)
        conversation.wake()
        await server.request()
        assert (crew.kept, crew.taken) == ([], [])


async def test_a_job_that_comes_at_the_last_moment_has_its_place() -> None:
    crew = Idle()
    async with talking(crew=crew) as (conversation, server):
        await reserving(conversation, server, seconds=-1)
        server.accept(await server.request(), jobs=[starting()])
        conversation.wake()
        assert not (await server.request()).watch_stops
        assert (crew.taken, crew.kept) == ([JOB_ID], [JOB_ID])


async def test_news_of_a_place_brings_its_job(tmp_path: Path) -> None:
    crew = Idle()
    async with talking(crew=crew) as (conversation, server):
        conversation.add(News("a" * 16, 3, tmp_path / "log", lambda problem: None))
        await reserving(conversation, server, seconds=300)
        conversation.watch_stops()
        request = await server.request()
        assert request.known == (AttemptRef(job_id="a" * 16, fence=3),)
        server.accept(request, jobs=[starting()])
        conversation.watch_stops()
        await server.request()
        assert (crew.taken, crew.kept) == ([JOB_ID], [JOB_ID])


async def test_a_claim_that_goes_with_news_of_a_place_names_what_is_known() -> None:
    crew = Idle()
    async with talking(crew=crew) as (conversation, server):
        await reserving(conversation, server, seconds=300)
        conversation.wake()
        before = await server.request()
        claim = asyncio.create_task(conversation.claim({"default"}))
        await asyncio.sleep(0)
        conversation.watch_stops()
        server.accept(before)
        request = await server.request()
        assert request.claim is not None
        assert request.known == ()
        server.accept(request)
        await claim
        assert crew.kept == [JOB_ID]
