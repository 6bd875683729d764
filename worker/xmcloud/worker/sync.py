"""The one conversation with the control plane: news, heartbeats and claims share requests."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Never, Protocol

from xmcloud.core.errors import StorageFull, Unavailable, XmcloudError
from xmcloud.core.models import Job, Statistics, Wanted
from xmcloud.core.trace import Trace, within
from xmcloud.core.worker_protocol import (
    OUTPUT_LIMIT,
    AttemptRef,
    Claim,
    Lease,
    Report,
    Reservation,
    StopOrder,
    Sync,
    SyncAnswer,
)
from xmcloud.worker.client import ApiClient
from xmcloud.worker.news import News

_LONGEST_REQUEST_SECONDS = 90.0  # one that got no answer may be under way that long
_LONGEST_HOLD_SECONDS = 600.0  # a place that it kept for a job may be filled so much later
_MARGIN_SECONDS = 0.5
_REPORTS_TOGETHER = 450
_OVER = {404, 409}
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0

logger = logging.getLogger("xmcloud.worker")


class Crew(Protocol):
    """Who does what the control plane answers."""

    def claim(self, queues: Collection[str]) -> Claim | None:
        """What of these queues could be run right now; None when nothing could."""

    def take(self, job: Job) -> None:
        """A job was claimed for this worker."""

    def reserve(self, reservation: Reservation) -> None:
        """A slot is to be kept for a job that may come."""

    def release(self, job_id: str) -> None:
        """The job did not come; nothing to do if it did."""

    def stop(self, order: StopOrder) -> None:
        """Somebody asked for an attempt to stop."""

    def obey(self, wanted: Wanted) -> None:
        """What people want of this worker, as often as it is told."""


class Conversation:
    """Everything one session says. Whatever comes up while a request is under way goes together.

    A heartbeat is sent only when nothing else was for a while.
    """

    def __init__(
        self,
        client: ApiClient,
        lease: Lease,
        crew: Crew,
        measured: Callable[[], Statistics | None] = lambda: None,
        closed: Callable[[], str] = lambda: "",
    ) -> None:
        """`measured` gives statistics of the machine when there are some to be told.

        `closed` says why it takes no jobs, if it does not.
        """
        self._client = client
        self._measured, self._closed = measured, closed
        self._session = lease.session.id
        self._heartbeat = lease.heartbeat_seconds
        self._crew = crew
        self._news: dict[tuple[str, int], News] = {}
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + self._heartbeat
        self._sooner = asyncio.Event()
        self._claiming: asyncio.Future[SyncAnswer] | None = None
        self._watch_stops = False
        self._claimed_queues: set[str] = set()
        self._stops_due = 0.0
        self._doubt = False
        self._doubt_until = 0.0
        self._reserved: dict[str, float] = {}
        self._pause = 0.0
        self._reports_from = 0.0

    def add(self, news: News) -> None:
        if not self._news:
            self._stops_due = self._loop.time() + self._heartbeat
        self._news[news.job_id, news.fence] = news

    def discard(self, news: News) -> None:
        self._news.pop((news.job_id, news.fence), None)

    def wake(self, seconds: float = 0.0) -> None:
        """There is news to send in at most so many seconds."""
        self._send_at(max(self._loop.time() + seconds, self._reports_from))

    async def claim(self, queues: Collection[str]) -> SyncAnswer:
        """Ask for jobs; those that came are with the crew already when this returns."""
        if self._claiming is None:
            self._claiming = self._loop.create_future()
        self._claimed_queues.update(queues)
        self._send_at(0)
        return await asyncio.shield(self._claiming)

    def watch_stops(self) -> None:
        """Ask at once which jobs are to be stopped."""
        self._watch_stops = True
        self._send_at(0)

    async def run(self) -> Never:
        """Raises `LeaseLost` when the session is over, and `Refused`."""
        while True:
            await self._until_due()
            self._due = self._loop.time() + self._heartbeat
            reports = self._collect()
            try:
                await self._exchange(reports)
            except Unavailable as error:
                await self._client.pause(error)
                self._send_at(0)
            except StorageFull as error:
                if reports:
                    self._hold_reports(error)
                else:
                    await self._client.pause(error)
                if self._claiming or self._watch_stops:
                    self._send_at(0)

    def _send_at(self, time: float) -> None:
        if time < self._due:
            self._due = time
            self._sooner.set()

    async def _until_due(self) -> None:
        while (left := self._due - self._loop.time()) > 0:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._sooner.wait()

    async def _exchange(self, reports: list[Report]) -> None:
        """What is asked for stays asked for when there is no answer."""
        claiming, doubt, sent_at = self._claiming, self._doubt, self._loop.time()
        overdue = any(until <= sent_at for until in self._reserved.values())
        watch_stops = self._watch_stops or overdue or self._time_to_watch_stops()
        self._watch_stops = False
        claim = self._crew.claim(self._claimed_queues) if claiming and not doubt else None
        self._doubt = doubt or claim is not None
        doubtful = sent_at < self._doubt_until and (claim is None or watch_stops)
        request = Sync(
            reports=tuple(reports),
            claim=claim,
            statistics=self._measured(),
            closed=self._closed()[:300],
            watch_stops=watch_stops,
            known=self._known() if doubt or overdue or doubtful else None,
        )
        try:
            with within(self._trace_of(reports)):
                answer = await self._client.sync(self._session, request)
        except XmcloudError:
            self._watch_stops = self._watch_stops or watch_stops
            if claim is not None:
                self._doubt_for(_LONGEST_REQUEST_SECONDS + _LONGEST_HOLD_SECONDS)
            raise
        self._doubt = False
        self._settle(reports, answer)
        self._keep_places(answer, sent_at)
        if claiming is not None and not doubt:
            self._claiming = None
            self._claimed_queues.clear()
            claiming.set_result(answer)
        elif self._claiming:
            self._send_at(0)

    def _trace_of(self, reports: list[Report]) -> Trace | None:
        """That of the one job that they are about; several jobs, or none, are of no trace.

        Recorded are a beginning and an end: output comes all day.
        """
        traces = {self._news[report.job_id, report.fence].trace for report in reports}
        trace = Trace.parse(traces.pop()) if len(traces) == 1 else None
        if trace is None or any(report.event in ("started", "finished") for report in reports):
            return trace
        return replace(trace, sampled=False)

    def _time_to_watch_stops(self) -> bool:
        """Once a heartbeat, though nobody said so: the word may have been lost."""
        if not self._news or self._loop.time() < self._stops_due:
            return False
        self._stops_due = self._loop.time() + self._heartbeat
        return True

    def _doubt_for(self, seconds: float) -> None:
        """A job may come that no answer told of."""
        self._doubt_until = max(self._doubt_until, self._loop.time() + seconds)

    def _keep_places(self, answer: SyncAnswer, sent_at: float) -> None:
        """For jobs that may come, until an answer to what was sent after that time is without."""
        for job in answer.jobs:
            self._reserved.pop(job.id, None)
        for job_id, until in list(self._reserved.items()):
            if until <= sent_at:
                del self._reserved[job_id]
                self._crew.release(job_id)
        for reservation in answer.reservations:
            seconds = reservation.seconds + _MARGIN_SECONDS
            self._reserved[reservation.job_id] = self._loop.time() + seconds
            self._doubt_for(seconds + _LONGEST_REQUEST_SECONDS)
            self._crew.reserve(reservation)
        if self._reserved:
            self._send_at(min(self._reserved.values()))

    def _known(self) -> tuple[AttemptRef, ...]:
        return tuple(AttemptRef(job_id=job_id, fence=fence) for job_id, fence in self._news)

    def _collect(self) -> list[Report]:
        reports: list[Report] = []
        if self._loop.time() < self._reports_from:
            return reports
        budget = OUTPUT_LIMIT
        for key, news in list(self._news.items()):
            if len(reports) >= _REPORTS_TOGETHER or budget <= 0:
                break
            collected = news.collect(budget)
            budget -= sum(len(report.data) for report in collected if report.event == "output")
            reports += collected
            # Who was heard goes to the end of the line.
            self._news[key] = self._news.pop(key)
        return reports

    def _settle(self, reports: list[Report], answer: SyncAnswer) -> None:
        for report, result in zip(reports, answer.results, strict=True):
            news = self._news.get((report.job_id, report.fence))
            if news is None:
                continue
            if result.problem is None:
                news.taken(report)
            elif result.problem.status in _OVER:
                news.refused(result.problem)
            else:
                news.objected(result.problem)
        if reports and self._pause:
            self._pause = 0.0
            logger.info("reports are taken again")
        for job in answer.jobs:
            self._crew.take(job)
        for order in answer.stops:
            self._crew.stop(order)
        self._crew.obey(answer.wanted)
        if any(news.urgent for news in self._news.values()):
            self.wake()

    def _hold_reports(self, full: StorageFull) -> None:
        """They stay on disk; what else there is to say goes without them meanwhile."""
        if not self._pause:
            logger.warning("reports are kept here and sent again: %s", full)
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._reports_from = self._loop.time() + self._pause
        self.wake()
