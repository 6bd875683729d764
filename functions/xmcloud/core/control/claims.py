"""Choosing jobs for a worker: the queue it prefers first, in the order people arranged."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.plane import ControlPlane, apply_jobs
from xmcloud.core.control.queues import paused_queues
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.models import Job, Session
from xmcloud.core.ports import Query
from xmcloud.core.protocol import Claim, QueueAnswer

PASSED_OVER = 200
"""Jobs that do not fit which one claim looks past in a queue."""

ROUNDS = 4
"""Times a claim looks again after losing races to other workers."""

Answer = Literal["empty", "more", "unfit", "paused"]


@dataclass(slots=True)
class _Free:
    """What is left of the worker while a claim is put together."""

    slots: int
    resources: dict[str, float]

    def fits(self, job: Job) -> bool:
        wanted = job.spec.resources.items()
        return all(self.resources.get(name, 0.0) >= amount for name, amount in wanted)

    def take(self, job: Job, sign: int = 1) -> None:
        self.slots -= sign
        for name, amount in job.spec.resources.items():
            self.resources[name] -= sign * amount


@dataclass(slots=True)
class _Choice:
    """What was found in one queue."""

    chosen: list[Stored[Job]] = field(default_factory=list)
    left: Answer = "empty"


async def claim_jobs(
    plane: ControlPlane, session: Session, claim: Claim
) -> tuple[list[Job], list[QueueAnswer]]:
    """Claims up to `claim.slots` jobs; nothing waits in a queue that does not exist.

    There is no answer for queues that were not looked at, because the slots were full before.
    """
    free = _Free(claim.slots, dict(claim.resources))
    paused = await paused_queues(plane)
    jobs: list[Job] = []
    answers: list[QueueAnswer] = []
    for name in dict.fromkeys(claim.queues):
        if name in paused:
            answers.append(QueueAnswer(name=name, answer="paused"))
            continue
        if free.slots == 0:
            break
        taken, left = await _from_queue(plane, session, name, free)
        jobs.extend(taken)
        answers.append(QueueAnswer(name=name, answer=left, taken=len(taken)))
    return jobs, answers


async def _from_queue(
    plane: ControlPlane, session: Session, queue: str, free: _Free
) -> tuple[list[Job], Answer]:
    taken: list[Job] = []
    for _ in range(ROUNDS):
        choice = await _choose(plane, session.pool, queue, free)
        now = plane.clock.now()
        claims = [(s, lifecycle.claimed(s.item, session, now)) for s in choice.chosen]
        applied = await apply_jobs(plane, claims) if claims else []
        for stored, done in zip(choice.chosen, applied, strict=True):
            if done is None:
                free.take(stored.item, -1)
            else:
                taken.append(done.item)
        if None not in applied:
            return taken, choice.left
    return taken, "more"


async def _choose(plane: ControlPlane, pool: str, queue: str, free: _Free) -> _Choice:
    """The first jobs that fit, taken off `free`, and whether more would be there."""
    choice = _Choice()
    async for stored in _candidates(plane, pool, queue, free.slots + 1):
        if not free.fits(stored.item):
            choice.left = "unfit"
        elif free.slots == 0:
            choice.left = "more"
            return choice
        else:
            free.take(stored.item)
            choice.chosen.append(stored)
    return choice


async def _candidates(
    plane: ControlPlane, pool: str, queue: str, first: int
) -> AsyncIterator[Stored[Job]]:
    """What waits for this pool or for any, by position; few reads when the head fits."""
    lines = [_Line(plane, queries.claimable(queue, name), first) for name in (pool, "")]
    await asyncio.gather(*(line.fill() for line in lines))
    for _ in range(PASSED_OVER):
        ahead = [line for line in lines if line.jobs]
        if not ahead:
            return
        line = min(ahead, key=lambda line: (line.jobs[0].item.position, line.jobs[0].item.id))
        yield line.jobs.popleft()
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
