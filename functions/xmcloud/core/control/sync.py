"""One exchange with a worker: take its reports, renew its lease, give it jobs."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.claims import claim_jobs
from xmcloud.core.control.logs import log_key
from xmcloud.core.control.plane import TRIES, ControlPlane, apply_jobs, backoff, publish_permits
from xmcloud.core.control.sessions import held_session
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import Contended, NotFound, StaleFence, TooLarge, XmcloudError
from xmcloud.core.models import Job, Session
from xmcloud.core.protocol import (
    RESULTS_LIMIT,
    AttemptRef,
    Claim,
    Finished,
    Output,
    Problem,
    QueueAnswer,
    Report,
    ReportResult,
    Started,
    StopOrder,
    Sync,
    SyncAnswer,
)

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


async def sync(plane: ControlPlane, session_id: str, request: Sync) -> SyncAnswer:
    """Raises `LeaseLost` for a session that is over: then nothing of the request is taken.

    What is taken, looked up and claimed does not depend on each other, so it shares round trips.
    If one part fails, the worker names what it knows in its next request, and loses nothing.
    """
    session = await held_session(plane, session_id)
    results, forgotten, claimed, stops = await _all_done(
        _take(plane, session, request.reports),
        _forgotten(plane, session, request.known),
        _claim(plane, session, request.claim),
        _stops(plane, session, request.watch_stops),
    )
    jobs, answers = claimed
    return SyncAnswer(
        lease_expires_at=session.expires_at,
        results=results,
        jobs=[*forgotten, *jobs],
        queues=answers,
        stops=stops,
    )


async def _all_done(
    first: Awaitable[A], second: Awaitable[B], third: Awaitable[C], fourth: Awaitable[D]
) -> tuple[A, B, C, D]:
    """The results; a failure is raised when nothing is under way any more."""
    results = await asyncio.gather(first, second, third, fourth, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast(tuple[A, B, C, D], tuple(results))


async def _claim(
    plane: ControlPlane, session: Session, claim: Claim | None
) -> tuple[list[Job], list[QueueAnswer]]:
    return await claim_jobs(plane, session, claim) if claim else ([], [])


async def _stops(plane: ControlPlane, session: Session, asked: bool) -> list[StopOrder]:
    if not asked:
        return []
    page, _ = await JOBS.find(plane.store, queries.to_stop(session.id).page(500, None))
    return [
        StopOrder(job_id=job.id, fence=job.fence, message=job.stop.message)
        for job in (stored.item for stored in page)
        if job.stop is not None
    ]


async def _forgotten(
    plane: ControlPlane, session: Session, known: Sequence[AttemptRef] | None
) -> list[Job]:
    """Attempts whose claim was answered into a broken connection."""
    if known is None:
        return []
    page, _ = await JOBS.find(plane.store, queries.held_by(session.id).page(1000, None))
    names = {(ref.job_id, ref.fence) for ref in known}
    return [s.item for s in page if (s.item.id, s.item.fence) not in names]


@dataclass(slots=True)
class _News:
    """The reports about one job, and what became of each by its index in the request."""

    reports: list[tuple[int, Report]] = field(default_factory=list)
    problems: dict[int, XmcloudError] = field(default_factory=dict)


async def _take(
    plane: ControlPlane, session: Session, reports: Sequence[Report]
) -> list[ReportResult]:
    if not reports:
        return []
    news: dict[str, _News] = {}
    for index, report in enumerate(reports):
        news.setdefault(report.job_id, _News()).reports.append((index, report))
    requeued: list[Stored[Job]] = []
    pending = list(news)
    for attempt in range(TRIES):
        pending, applied = await _round(plane, session, news, pending)
        requeued.extend(applied)
        if not pending:
            break
        await backoff(attempt)
    if pending:
        raise Contended(f"Job {pending[0]}")
    await publish_permits(plane, requeued)
    problems = {i: error for found in news.values() for i, error in found.problems.items()}
    return [
        ReportResult(
            job_id=report.job_id,
            fence=report.fence,
            problem=Problem.of(problems[index]) if index in problems else None,
        )
        for index, report in enumerate(reports)
    ]


async def _round(
    plane: ControlPlane, session: Session, news: dict[str, _News], ids: list[str]
) -> tuple[list[str], list[Stored[Job]]]:
    """Takes the news of these jobs; who lost a race is to be tried again, what is queued told."""
    changes: list[tuple[Stored[Job], Job]] = []
    outputs: list[Output] = []
    for id, stored in zip(ids, await JOBS.get_many(plane.store, ids), strict=True):
        found = news[id]
        found.problems.clear()
        if stored is None:
            found.problems.update({i: NotFound("job", id) for i, _ in found.reports})
            continue
        job = _decide(plane, session, stored.item, found, outputs)
        if job != stored.item:
            changes.append((stored, job))
    await asyncio.gather(
        *(plane.blobs.put(log_key(o.job_id, o.fence, o.offset), o.data) for o in outputs)
    )
    applied = await apply_jobs(plane, changes) if changes else []
    for output in outputs:
        plane.signals.send(f"job/{output.job_id}")
    lost = [s.item.id for (s, _), done in zip(changes, applied, strict=True) if done is None]
    return lost, [done for done in applied if done is not None]


def _decide(
    plane: ControlPlane, session: Session, job: Job, news: _News, outputs: list[Output]
) -> Job:
    """The job after all its reports that count; those that do not get their problem."""
    for index, report in news.reports:
        try:
            job = _after(plane, session, job, report)
        except (StaleFence, TooLarge) as error:
            news.problems[index] = error
        else:
            if isinstance(report, Output):
                outputs.append(report)
    return job


def _after(plane: ControlPlane, session: Session, job: Job, report: Report) -> Job:
    attempt = job.attempt
    if attempt is None or attempt.fence != report.fence or attempt.session != session.id:
        raise StaleFence(job.id, report.fence, f"the job is {job.state} at fence {job.fence}")
    now = plane.clock.now()
    match report:
        case Started():
            return lifecycle.started(job, report.fence, now, min(report.at, now))
        case Finished():
            size = len(report.model_dump_json(include={"results"}))
            if size > RESULTS_LIMIT:
                raise TooLarge("The results of the job", size, RESULTS_LIMIT)
            return lifecycle.finished(
                job, report.fence, report.outcome, report.reason, now, results=report.results
            )
        case Output():
            return job
