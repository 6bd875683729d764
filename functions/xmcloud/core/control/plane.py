"""What every use case works with, and the one way to change a job."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import Contended, Unavailable
from xmcloud.core.lifecycle import UNCONFIRMED, permit_confirmed
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import (
    WRITES_LIMIT,
    Blobs,
    Clock,
    Message,
    PreconditionFailed,
    Queue,
    Store,
    Write,
)
from xmcloud.core.signals import Signals
from xmcloud.core.topics import queue_topic

TRIES = 12
"""Rounds of load, decide and apply before a request gives up with `Contended`."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The ports, and what is particular to this deployment.

    `alarm` is told that a subject falls due, and again when it does so at another time, for who
    sweeps on time. `look_again` is how often a
    waiting request looks for changes made by other processes, and `overlap` how much later a
    write may become visible than the time it carries.
    """

    store: Store
    queue: Queue
    blobs: Blobs
    clock: Clock
    lease: timedelta = timedelta(seconds=30)
    heartbeat: timedelta = timedelta(seconds=10)
    look_again: timedelta = timedelta(seconds=2)
    overlap: timedelta = timedelta(seconds=2)
    alarm: Callable[[str, datetime], None] = field(default=lambda subject, due: None)
    signals: Signals = field(default_factory=Signals)

    def announce(self, job: Job) -> None:
        """Wakes whoever waits for this job or its experiment."""
        self.signals.send(f"job/{job.id}")
        self.signals.send(f"experiment/{job.experiment_id}")


async def backoff(attempt: int) -> None:
    """Full jitter; real time, since it is between processes that race."""
    await asyncio.sleep(random.uniform(0, min(0.5, 0.005 * 2**attempt)))  # noqa: S311


async def change_job(plane: ControlPlane, id: str, decide: Callable[[Job], Job]) -> Stored[Job]:
    """Applies a transition to a job, again on its newest state when somebody was faster.

    Raises whatever `decide` raises, `NotFound` and `Contended`.
    """
    for attempt in range(TRIES):
        stored = await JOBS.get(plane.store, id)
        changed = decide(stored.item)
        if changed == stored.item:
            return stored
        try:
            (version,) = await plane.store.commit([JOBS.replace(stored, changed)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        plane.announce(changed)
        return JOBS.written(changed, version)
    raise Contended(f"Job {id}")


async def apply_jobs(
    plane: ControlPlane, changes: Sequence[tuple[Stored[Job], Job]]
) -> list[Stored[Job] | None]:
    """Applies each change that still holds; None in place of one that lost a race."""
    applied: list[Stored[Job] | None] = []
    for start in range(0, len(changes), WRITES_LIMIT):
        part = changes[start : start + WRITES_LIMIT]
        writes: list[Write] = [JOBS.replace(stored, job) for stored, job in part]
        versions = await plane.store.apply(writes)
        for (_, job), version in zip(part, versions, strict=True):
            applied.append(None if version is None else JOBS.written(job, version))
            if version is not None:
                plane.announce(job)
    return applied


async def publish_permits(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """Publishes a permit for each queued job and notes that the broker has it.

    A broker that does not answer is no failure of the request: the sweep publishes again. The
    note is skipped for jobs that were claimed meanwhile.
    """
    queued = [stored for stored in jobs if stored.item.state is JobState.QUEUED]
    by_topic: dict[str, list[Message]] = {}
    for stored in queued:
        message = Message(stored.item.spec.pool, stored.item.id)
        by_topic.setdefault(queue_topic(stored.item.queue), []).append(message)
    now = plane.clock.now()
    try:
        await asyncio.gather(*(plane.queue.publish(t, sent) for t, sent in by_topic.items()))
    except Unavailable:
        plane.alarm("unconfirmed permits", now + UNCONFIRMED)
        return list(jobs)
    if not queued:
        return list(jobs)
    # Whoever waits for the permits in this process goes first.
    await asyncio.sleep(0)
    confirmed = await apply_jobs(plane, [(s, permit_confirmed(s.item, now)) for s in queued])
    newest = {s.item.id: s for s in confirmed if s is not None}
    return [newest.get(stored.item.id, stored) for stored in jobs]
