"""Choosing jobs for a worker: the queue it prefers first, in the order people arranged."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from xmcloud.core import lifecycle, queries
from xmcloud.core.control import gathering
from xmcloud.core.control.changing import apply_jobs, change_job, load_group
from xmcloud.core.control.free import Free
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import paused_queues
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import InvalidInput
from xmcloud.core.groups import whole
from xmcloud.core.models import Job, JobState, Session
from xmcloud.core.ports import Query
from xmcloud.core.worker_protocol import Claim, QueueAnswer, Reservation

PASSED_OVER = 200
"""Jobs that do not fit which one claim looks past in a queue."""

ROUNDS = 4
"""Times a claim looks again after losing races to other workers."""

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
    """That job, whether it fits or not. Raises `IllegalTransition`, and `InvalidInput` for a job
    of a group or of a target."""

    def decide(job: Job) -> Job:
        if job.group:
            raise InvalidInput("only", id, "a job that is alone; a group starts as a whole")
        if job.pool in plane.targets:
            raise InvalidInput("only", id, f"a job of workers; this one is for {job.pool}")
        now = plane.clock.now()
        if job.state in (JobState.DRAFT, JobState.STOPPED, JobState.FAILED):
            position = lifecycle.position_at(now)
            job = lifecycle.enqueued(job, job.queue, position, session.worker, now)
        return lifecycle.claimed(job, session.worker, session.id, now)

    return Claimed(jobs=[(await change_job(plane, id, decide)).job.item])


async def _from_queue(
    plane: ControlPlane, session: Session, queue: str, free: Free, claimed: Claimed
) -> Answer:
    for _ in range(ROUNDS):
        choice = await _choose(plane, session, queue, free, claimed)
        now = plane.clock.now()
        claims = [
            (s, lifecycle.claimed(s.item, session.worker, session.id, now)) for s in choice.chosen
        ]
        applied = await apply_jobs(plane, claims) if claims else []
        for stored, done in zip(choice.chosen, applied, strict=True):
            if done is None:
                free.give_back([stored.item])
            else:
                claimed.jobs.append(done.item)
        if None not in applied:
            return choice.left
    return "more"


async def _choose(
    plane: ControlPlane, session: Session, queue: str, free: Free, claimed: Claimed
) -> _Choice:
    """The first jobs that fit, taken off `free`, and whether more would be there."""
    choice = _Choice()
    groups: set[str] = set()
    async for stored in _candidates(plane, session.pool, queue, free.slots + 1):
        job = stored.item
        if job.group:
            if job.members[0] not in groups:
                groups.add(job.members[0])
                left = await _take_group(plane, session, stored, free, claimed)
                choice.left = left or choice.left
        elif not free.fits(job):
            choice.left = "unfit"
        elif free.slots == 0:
            choice.left = "more"
            return choice
        else:
            free.take(job)
            choice.chosen.append(stored)
    return choice


async def _take_group(
    plane: ControlPlane, session: Session, stored: Stored[Job], free: Free, claimed: Claimed
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
    taken = await gathering.take(plane, session, left, free)
    if taken is None:
        return "unfit"
    claimed.jobs += taken.jobs
    claimed.reservations += taken.reservations
    return None


async def _candidates(
    plane: ControlPlane, pool: str, queue: str, first: int
) -> AsyncIterator[Stored[Job]]:
    """What waits for this pool or for any, by position; few reads when the head fits."""
    lines = [_Line(plane, queries.claimable(queue, name), first) for name in (pool, "")]
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
