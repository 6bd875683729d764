"""One exchange with a worker: take its reports, renew its lease, give it jobs."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from xmcloud.core import groups, lifecycle, queries
from xmcloud.core.control.changing import apply_jobs, commit_jobs, load_group, spread
from xmcloud.core.control.claims import Claimed, claim_jobs, claim_only
from xmcloud.core.control.gathering import kept_places
from xmcloud.core.control.logs import keep_output
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.sessions import held_session
from xmcloud.core.control.statistics import keep_job_statistics, keep_worker_statistics
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import (
    Contended,
    InvalidInput,
    NotFound,
    StaleFence,
    TooLarge,
    XmcloudError,
)
from xmcloud.core.models import Attempt, Job, Session, Wanted
from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import (
    RESULTS_LIMIT,
    AttemptAnswer,
    AttemptRef,
    Claim,
    Finished,
    Measured,
    Output,
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
    session = await held_session(plane, session_id, request.closed)
    results, forgotten, claimed, stops = await _all_done(
        take_reports(plane, session.id, request.reports),
        _forgotten(plane, session, request.known),
        _claim(plane, session, request.claim),
        _stops(plane, session, request.watch_stops),
    )
    if request.statistics is not None:
        await keep_worker_statistics(plane, session.worker, request.statistics)
    return SyncAnswer(
        lease_expires_at=session.expires_at,
        results=results,
        jobs=[*forgotten.jobs, *claimed.jobs],
        queues=claimed.queues,
        reservations=[*forgotten.reservations, *claimed.reservations],
        stops=stops,
        wanted=session.wanted,
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


async def _claim(plane: ControlPlane, session: Session, claim: Claim | None) -> Claimed:
    if claim is None or session.wanted is not Wanted.RUN:
        return Claimed()
    if claim.only is not None:
        return await claim_only(plane, session, claim.only)
    return await claim_jobs(plane, session, claim)


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
) -> Claimed:
    """Attempts, and places, whose claim was answered into a broken connection."""
    if known is None:
        return Claimed()
    (page, _), places = await asyncio.gather(
        JOBS.find(plane.store, queries.held_by(session.id).page(1000, None)),
        kept_places(plane, session),
    )
    names = {(ref.job_id, ref.fence) for ref in known}
    jobs = [s.item for s in page if (s.item.id, s.item.fence) not in names]
    return Claimed(jobs=jobs, reservations=places)


@dataclass(slots=True)
class _News:
    """The reports about one job, and what became of each by its index in the request."""

    reports: list[tuple[int, Report]] = field(default_factory=list)
    problems: dict[int, XmcloudError] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        return any(isinstance(report, Finished) for _, report in self.reports)


async def take_reports(
    plane: ControlPlane, session: str, reports: Sequence[Report]
) -> list[ReportResult]:
    """What became of each report of attempts that the session, or target, holds."""
    if not reports:
        return []
    news: dict[str, _News] = {}
    for index, report in enumerate(reports):
        news.setdefault(report.job_id, _News()).reports.append((index, report))
    changed: list[Stored[Job]] = []
    pending = list(news)
    for attempt in range(TRIES):
        pending, applied = await _round(plane, session, news, pending)
        changed.extend(applied)
        if not pending:
            break
        await backoff(attempt)
    if pending:
        raise Contended(f"Job {pending[0]}")
    await spread(plane, changed)
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
    plane: ControlPlane, session: str, news: dict[str, _News], ids: list[str]
) -> tuple[list[str], list[Stored[Job]]]:
    """Takes the news of these jobs; who lost a race is to be tried again, what changed told."""
    blobs: list[Output | Measured] = []
    units = await _units(plane, news, ids)
    changes = [_changes(plane, session, unit, news, blobs) for unit in units]
    await asyncio.gather(*(_keep(plane, each) for each in blobs))
    singles = [found[0] for found in changes if len(found) == 1]
    applied = await apply_jobs(plane, singles) if singles else []
    done = [stored for stored in applied if stored is not None]
    lost = [s.item.id for (s, _), new in zip(singles, applied, strict=True) if new is None]
    for found in (each for each in changes if len(each) > 1):
        together = await commit_jobs(plane, found)
        done += together or []
        if together is None:
            lost += [stored.item.id for stored, _ in found if stored.item.id in news]
    for job in {each.job_id for each in blobs}:
        plane.signals.send(f"job/{job}")
    return lost, done


async def _keep(plane: ControlPlane, report: Output | Measured) -> None:
    if isinstance(report, Output):
        await keep_output(plane, report)
    else:
        await keep_job_statistics(plane, report)


async def _units(
    plane: ControlPlane, news: dict[str, _News], ids: list[str]
) -> list[list[Stored[Job]]]:
    """The jobs, each with its group if its attempt ends; what is not there gets its problem."""
    units: dict[str, list[Stored[Job]]] = {}
    there = dict(zip(ids, await JOBS.get_many(plane.store, ids), strict=True))
    ending = {s.item.members[0] for id, s in there.items() if s is not None and news[id].ends}
    for id, stored in there.items():
        found = news[id]
        found.problems.clear()
        if stored is None:
            found.problems.update({i: NotFound("job", id) for i, _ in found.reports})
            continue
        leader = stored.item.members[0]
        if stored.item.group and leader in ending:
            if leader not in units:
                units[leader] = await load_group(plane, stored)
        else:
            units[f"{id} alone"] = [stored]
    return list(units.values())


def _changes(
    plane: ControlPlane,
    session: str,
    unit: list[Stored[Job]],
    news: dict[str, _News],
    blobs: list[Output | Measured],
) -> list[tuple[Stored[Job], Job]]:
    """What the news of these jobs, and what that means for the others of the group, changes."""
    decided = [
        _decide(plane, session, stored.item, news[stored.item.id], blobs)
        if stored.item.id in news
        else stored.item
        for stored in unit
    ]
    after = groups.settled(decided, plane.clock.now())
    return [(s, job) for s, job in zip(unit, after, strict=True) if job != s.item]


def _decide(
    plane: ControlPlane, session: str, job: Job, news: _News, blobs: list[Output | Measured]
) -> Job:
    """The job after all its reports that count; those that do not get their problem."""
    for index, report in news.reports:
        try:
            job = _after(plane, session, job, report)
        except (StaleFence, TooLarge) as error:
            news.problems[index] = error
        else:
            if isinstance(report, Output | Measured):
                blobs.append(report)
    return job


def _after(plane: ControlPlane, session: str, job: Job, report: Report) -> Job:
    attempt = job.attempt
    if attempt is None or attempt.fence != report.fence or attempt.session != session:
        raise StaleFence(job.id, report.fence, f"the job is {job.state} at fence {job.fence}")
    now = plane.clock.now()
    match report:
        case Started():
            return lifecycle.started(job, report.fence, now, min(report.at, now), report.execution)
        case Finished():
            size = len(report.model_dump_json(include={"results"}))
            if size > RESULTS_LIMIT:
                raise TooLarge("The results of the job", size, RESULTS_LIMIT)
            return lifecycle.finished(
                job, report.fence, report.outcome, report.reason, now, results=report.results
            )
        case Output() | Measured():
            return job


async def attempt_reports(
    plane: ControlPlane, job: str, fence: int, reports: Sequence[Report]
) -> AttemptAnswer:
    """What the process of an attempt on a platform tells, and whether it is to stop.

    Raises `InvalidInput` for a report of another attempt, `NotFound`, and `StaleFence` when the
    attempt is over: then its process ends, and what it would tell does not count.
    """
    for report in reports:
        if (report.job_id, report.fence) != (job, fence):
            raise InvalidInput("reports", f"{report.job_id}/{report.fence}", f"of {job}/{fence}")
    attempt = _open_attempt((await JOBS.get(plane.store, job)).item, fence)
    results = await take_reports(plane, attempt.session, reports)
    now = (await JOBS.get(plane.store, job)).item
    stop = now.stop if now.fence == fence else None
    order = StopOrder(job_id=job, fence=fence, message=stop.message) if stop else None
    if now.attempt is None:
        plane.alarm(f"room/{attempt.worker}", plane.clock.now())
    return AttemptAnswer(results=results, stop=order)


def _open_attempt(job: Job, fence: int) -> Attempt:
    if job.attempt is None or job.fence != fence:
        raise StaleFence(job.id, fence, f"the job is {job.state} at fence {job.fence}")
    return job.attempt
