"""Counts of what waits, runs and works, for who watches over a deployment."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xmcloud.core import queries
from xmcloud.core.control.dispatch import list_targets
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import list_queues
from xmcloud.core.documents import SESSIONS
from xmcloud.core.models import JobState, Session
from xmcloud.core.protocol import QueueStatus, TargetStatus

COUNTED = (JobState.BUILDING, JobState.STARTING, JobState.RUNNING)
"""States that hold few jobs, whatever the age of the deployment; those queued are in the queues."""

WORKERS_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Pool:
    """What the workers of a pool are, together."""

    workers: int
    silent: int
    slots: int
    busy: int


@dataclass(frozen=True, slots=True)
class Census:
    """All of it, about as of one instant."""

    queues: Sequence[QueueStatus]
    states: dict[JobState, int]
    pools: dict[str, Pool]
    targets: Sequence[TargetStatus]


async def take_census(plane: ControlPlane) -> Census:
    """Reads 1 document for the queues made here, and 2 a queue, 1 a state, 2 a worker, 2 a target.

    That is while fewer than a thousand jobs are counted at once; a count reads one more for each
    further thousand.
    """
    queues, (opened, _), targets, counts = await asyncio.gather(
        list_queues(plane),
        SESSIONS.find(plane.store, queries.open_sessions().page(WORKERS_LIMIT, None)),
        list_targets(plane),
        asyncio.gather(*(plane.store.count(queries.in_state(state)) for state in COUNTED)),
    )
    return Census(
        queues=queues.queues,
        states=dict(zip(COUNTED, counts, strict=True)),
        pools=await _pools(plane, [stored.item for stored in opened]),
        targets=targets.targets,
    )


async def _pools(plane: ControlPlane, opened: Sequence[Session]) -> dict[str, Pool]:
    now = plane.clock.now()
    held = await asyncio.gather(*(plane.store.count(queries.held_by(s.id)) for s in opened))
    workers, silent, slots, busy = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for session, jobs in zip(opened, held, strict=True):
        workers[session.pool] += 1
        silent[session.pool] += not session.valid_at(now)
        slots[session.pool] += session.slots
        busy[session.pool] += jobs
    return {
        pool: Pool(workers[pool], silent[pool], slots[pool], busy[pool]) for pool in sorted(workers)
    }
