"""Choosing jobs for a worker: the queue it prefers first, in the order people arranged."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Literal

from xmcloud.core import lifecycle, queries
from xmcloud.core.control import gathering
from xmcloud.core.control.changing import apply_jobs, commit_jobs, load_group
from xmcloud.core.control.free import Free
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.queues import paused_queues
from xmcloud.core.control.quotas import Turn
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import Contended, Forbidden, InvalidInput
from xmcloud.core.groups import whole
from xmcloud.core.identity import Permission
from xmcloud.core.models import Job, JobState, Session
from xmcloud.core.ports import COMMIT_LIMIT, WRITES_LIMIT, Query
from xmcloud.core.worker_protocol import Claim, QueueAnswer, Reservation

PASSED_OVER = 200
"""Jobs that do not fit which one claim looks past in a queue."""

ROUNDS = 4
"""Times a claim looks again after losing races to other workers."""

CLAIM_BYTES = 4096
"""By which a claim makes the document of a job larger, at most."""

Answer = Literal["empty", "more", "unfit", "paused"]


@dataclass(slots=True)
class Claimed:
    """What a claim brought: jobs to run, slots that are kept, and what is left in the queues."""

    jobs: list[Job] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    queues: list[QueueAnswer] = field(default_factory=list)


@dataclass(slots=True)
class _Choice:
    """What was found in one queue."""

    chosen: list[Stored[Job]] = field(default_factory=list)
    left: Answer = "empty"


async def claim_jobs(plane: ControlPlane, session: Session, claim: Claim) -> Claimed:
    """Claims up to `claim.slots` jobs; nothing waits in a queue that does not exist.

    There is no answer for queues that were not looked at, because the slots were full before.
    """
    free = Free.of(claim)
    paused = await paused_queues(plane)
    claimed = Claimed()
    for name in dict.fromkeys(claim.queues):
        if name in paused:
            claimed.queues.append(QueueAnswer(name=name, answer="paused"))
            continue
        if free.slots == 0:
            break
        before = len(claimed.jobs)
        left = await _from_queue(plane, session, name, free, claimed)
        taken = len(claimed.jobs) - before
        claimed.queues.append(QueueAnswer(name=name, answer=left, taken=taken))
    return claimed


async def claim_only(plane: ControlPlane, session: Session, id: str) -> Claimed:
    """That job, whether it fits or not. Raises `IllegalTransition`, `OverQuota`, `InvalidInput`
    for a job of a group or of a target, and `Forbidden` for one that people did not queue, of
    whom the caller is none that may."""
    for attempt in range(TRIES):
        turn = Turn(plane)
        stored = await JOBS.get(plane.store, id)
        taken = _taken_out(plane, session, stored.item)
        excess = await turn.excess([taken])
        if excess is not None:
            raise excess.refusal()
        done = await commit_jobs(plane, [(stored, taken)], turn.passing([taken.project]))
        if done is not None:
            return Claimed(jobs=[done[0].item])
        await backoff(attempt)
    raise Contended(f"Job {id}")


def _taken_out(plane: ControlPlane, session: Session, job: Job) -> Job:
    """Claimed, from wherever it is."""
    if job.group:
        raise InvalidInput("only", job.id, "a job that is alone; a group starts as a whole")
    if job.pool in plane.targets:
        raise InvalidInput("only", job.id, f"a job of workers; this one is for {job.pool}")
    if not session.understands(job.spec):
        raise InvalidInput("only", job.id, "a job without secrets, or the worker a newer one")
    now = plane.clock.now()
    if job.state in (JobState.DRAFT, JobState.STOPPED, JobState.FAILED):
        if not plane.caller.may_change(job.project, job.creator):
            raise Forbidden(plane.caller.name, Permission.OPERATE, job.project)
        position = lifecycle.position_at(now)
        job = lifecycle.enqueued(job, job.queue, position, session.worker, now)
    return lifecycle.claimed(job, session.worker, session.id, now)


async def _from_queue(
    plane: ControlPlane, session: Session, queue: str, free: Free, claimed: Claimed
) -> Answer:
    for _ in range(ROUNDS):
        turn = Turn(plane)
        choice = await _choose(plane, session, queue, free, claimed, turn)
        applied = await _apply(plane, session, choice.chosen, turn)
        for stored, done in zip(choice.chosen, applied, strict=True):
            if done is None:
                free.give_back([stored.item])
            else:
                claimed.jobs.append(done.item)
        if None not in applied:
            return choice.left
    return "more"


async def _apply(
    plane: ControlPlane, session: Session, chosen: Sequence[Stored[Job]], turn: Turn
) -> list[Stored[Job] | None]:
    """Claims each that still waits; those that have to pass a turnstile go together, or not."""
    now = plane.clock.now()
    claims = [(s, lifecycle.claimed(s.item, session.worker, session.id, now)) for s in chosen]
    done: dict[str, Stored[Job]] = {}
    free: list[tuple[Stored[Job], Job]] = []
    for project in {job.project for _, job in claims}:
        mine = [claim for claim in claims if claim[1].project == project]
        if passing := turn.passing([project]):
            together = await commit_jobs(plane, _in_one_commit(mine), passing)
            done |= {stored.item.id: stored for stored in together or []}
        else:
            free += mine
    applied = await apply_jobs(plane, free) if free else []
    done |= {stored.item.id: stored for stored in applied if stored is not None}
    return [done.get(stored.item.id) for stored in chosen]


def _in_one_commit(claims: Sequence[tuple[Stored[Job], Job]]) -> list[tuple[Stored[Job], Job]]:
    """The first of them, as many as fit beside a turnstile; the rest is for the next round."""
    bodies = (len(str(stored.document.data["body"]).encode()) for stored, _ in claims)
    sizes = accumulate(size + CLAIM_BYTES for size in bodies)
    fitting = sum(size <= COMMIT_LIMIT for size in sizes)
    return list(claims[: min(max(1, fitting), WRITES_LIMIT - 1)])


async def _choose(
    plane: ControlPlane, session: Session, queue: str, free: Free, claimed: Claimed, turn: Turn
) -> _Choice:
    """The first jobs that fit, taken off `free`, and whether more would be there."""
    choice = _Choice()
    groups: set[str] = set()
    async for stored in _waiting(plane, session.pool, queue, free.slots + 1, turn):
        job = stored.item
        if job.group:
            if job.members[0] not in groups:
                groups.add(job.members[0])
                left = await _take_group(plane, session, stored, free, claimed, turn)
                choice.left = left or choice.left
        elif not free.fits(job) or not session.understands(job.spec):
            choice.left = "unfit"
        elif free.slots == 0:
            choice.left = "more"
            return choice
        elif await turn.excess([job]) is not None:
            choice.left = "unfit"
        else:
            turn.take([job])
            free.take(job)
            choice.chosen.append(stored)
    return choice


async def _take_group(
    plane: ControlPlane,
    session: Session,
    stored: Stored[Job],
    free: Free,
    claimed: Claimed,
    turn: Turn,
) -> Answer | None:
    """Claims a group that fits as a whole, or keeps what is free for a part of it.

    None when nothing of it is left to take.
    """
    unit = await load_group(plane, stored)
    if not whole([member.item for member in unit]):
        return None
    left = [member for member in unit if member.item.state is JobState.QUEUED]
    if free.slots == 0:
        return "more"
    jobs = [member.item for member in left]
    if not all(session.understands(job.spec) for job in jobs):
        return "unfit"
    if await turn.excess(jobs) is not None:
        return "unfit"
    project = jobs[0].project
    taken = await gathering.take(plane, session, left, free, turn.passing([project]))
    if taken is None:
        return "unfit"
    if taken.jobs:
        turn.take(jobs)
        await turn.passed(project)
    claimed.jobs += taken.jobs
    claimed.reservations += taken.reservations
    return None


async def _waiting(
    plane: ControlPlane, pool: str, queue: str, first: int, turn: Turn
) -> AsyncIterator[Stored[Job]]:
    """What waits for this pool or for any, by position.

    Where a project that is full has so much at the head that nobody looks past it, the others'
    jobs follow.
    """
    lines = [_Line(plane, queries.claimable(queue, name), first) for name in (pool, "")]
    seen: set[str] = set()
    async for stored in _candidates(plane, lines):
        seen.add(stored.item.id)
        yield stored
    if not turn.full or not any(line.jobs for line in lines):
        return
    beyond = [
        _Line(plane, queries.claimable_in(project, queue, name), first)
        for project in turn.others()
        for name in (pool, "")
    ]
    async for stored in _candidates(plane, beyond):
        if stored.item.id not in seen:
            yield stored


async def _candidates(plane: ControlPlane, lines: Sequence["_Line"]) -> AsyncIterator[Stored[Job]]:
    """The jobs of those lines by position; few reads when the head fits."""
    await asyncio.gather(*(line.fill() for line in lines))
    now = plane.clock.now()
    for _ in range(PASSED_OVER):
        ahead = [line for line in lines if line.jobs]
        if not ahead:
            return
        line = min(ahead, key=lambda line: (line.jobs[0].item.position, line.jobs[0].item.id))
        stored = line.jobs.popleft()
        if _may_start(stored.item, now):
            yield stored
        await line.fill()


class _Line:
    """The jobs of one query in order, read a page at a time."""

    def __init__(self, plane: ControlPlane, query: Query, size: int) -> None:
        self.jobs: deque[Stored[Job]] = deque()
        self._plane, self._query, self._size = plane, query, size
        self._cursor: str | None = None
        self._ended = False

    async def fill(self) -> None:
        if self.jobs or self._ended:
            return
        query = self._query.page(self._size, self._cursor)
        page, self._cursor = await JOBS.find(self._plane.store, query)
        self.jobs.extend(page)
        self._ended = self._cursor is None
        self._size = min(2 * self._size, 50)


def _may_start(job: Job, now: datetime) -> bool:
    later = job.waiting.not_before if job.waiting else None
    return later is None or later <= now
