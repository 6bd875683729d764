"""Queues: making, pausing and arranging them."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from xmcloud.core import queries
from xmcloud.core.control.changing import change_unit, load_group, spread
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.updating import there, update
from xmcloud.core.documents import JOBS, QUEUES, Stored
from xmcloud.core.errors import AlreadyExists, Contended, InvalidInput, NotFound
from xmcloud.core.identity import Permission
from xmcloud.core.lifecycle import PLACE, moved, position_at
from xmcloud.core.models import DEFAULT_QUEUES, Job, JobState, QueueState
from xmcloud.core.ports import Message, PreconditionFailed, Query
from xmcloud.core.protocol import Jobs, Move, NewQueue, Queues, QueueStatus
from xmcloud.core.topics import queue_topic

QUEUES_CHANGED = "queues"
"""The signal that there is another queue."""

WOKEN_BY_RESUME = 100
"""Permits published when a queue is resumed: enough for as many workers to look at once."""

_BUILT_IN = {
    name: QueueState(name=name, priority=priority, created_at=datetime(1970, 1, 1, tzinfo=UTC))
    for name, priority in DEFAULT_QUEUES
}


async def load_queues(plane: ControlPlane, names: Iterable[str]) -> dict[str, QueueState]:
    """The queues of those names; the built-in ones need no document. Raises `NotFound`."""
    wanted = sorted(set(names))
    found = await QUEUES.get_many(plane.store, wanted) if wanted else []
    queues: dict[str, QueueState] = {}
    for name, stored in zip(wanted, found, strict=True):
        queues[name] = _known(stored.item if stored else None, name)
    return queues


def _known(queue: QueueState | None, name: str) -> QueueState:
    missing = NotFound("queue", name, f"Make it with: xmcloud queue create {name}")
    return there(queue or _BUILT_IN.get(name), missing)


async def require_queues(plane: ControlPlane, names: Iterable[str]) -> None:
    """Raises `NotFound` unless all exist; asks the store only about those that are not built in."""
    await load_queues(plane, set(names) - set(_BUILT_IN))


async def paused_queues(plane: ControlPlane) -> set[str]:
    """The names of those that nothing may start from."""
    page, _ = await QUEUES.find(plane.store, queries.paused_queues().page(500, None))
    return {stored.item.name for stored in page}


async def create_queue(plane: ControlPlane, request: NewQueue) -> QueueState:
    """Raises `AlreadyExists`."""
    state = QueueState(name=request.name, priority=request.priority, created_at=plane.clock.now())
    if request.name in _BUILT_IN:
        raise AlreadyExists("queue", request.name)
    try:
        await plane.store.commit([QUEUES.create(state)])
    except PreconditionFailed:
        raise AlreadyExists("queue", request.name) from None
    plane.signals.send(QUEUES_CHANGED)
    return state


async def ordered_queues(plane: ControlPlane) -> list[QueueState]:
    """All queues, the highest priority first."""
    page, _ = await QUEUES.find(plane.store, queries.queues().page(500, None))
    states = _BUILT_IN | {stored.item.name: stored.item for stored in page}
    return sorted(states.values(), key=lambda queue: (-queue.priority, queue.name))


async def list_queues(plane: ControlPlane) -> Queues:
    """All queues, the highest priority first."""
    ordered = await ordered_queues(plane)
    return Queues(queues=await asyncio.gather(*(_status(plane, queue) for queue in ordered)))


async def queue_status(plane: ControlPlane, name: str) -> QueueStatus:
    return await _status(plane, (await load_queues(plane, [name]))[name])


async def _status(plane: ControlPlane, queue: QueueState) -> QueueStatus:
    waiting, first = await asyncio.gather(
        plane.store.count(queries.waiting(queue.name)),
        JOBS.find(plane.store, queries.waiting(queue.name).page(1, None)),
    )
    oldest = first[0][0].item.updated_at if first[0] else None
    return QueueStatus(queue=queue, waiting=waiting, oldest=oldest)


async def queue_jobs(plane: ControlPlane, name: str, limit: int, cursor: str | None) -> Jobs:
    """What waits in the queue, in order, of what the caller may see."""
    await require_queues(plane, [name])
    page, after = await JOBS.find(plane.store, queries.waiting(name).page(limit, cursor))
    return Jobs(jobs=visible(plane, (stored.item for stored in page)), cursor=after)


def visible(plane: ControlPlane, jobs: Iterable[Job]) -> list[Job]:
    """Those that the caller may see."""
    return [job for job in jobs if plane.caller.may(Permission.READ, job.project)]


async def pause_queue(plane: ControlPlane, name: str) -> QueueState:
    """Nothing is claimed from it until it is resumed; what runs goes on."""
    return await _set_paused(plane, name, True)


async def resume_queue(plane: ControlPlane, name: str) -> QueueState:
    """Workers hear of what waits at once."""
    state = await _set_paused(plane, name, False)
    await wake_queue(plane, name)
    return state


async def wake_queue(plane: ControlPlane, name: str) -> None:
    """Workers look at what waits there."""
    page, _ = await JOBS.find(plane.store, queries.waiting(name).page(WOKEN_BY_RESUME, None))
    messages = [Message(stored.item.pool, stored.item.id) for stored in page]
    await plane.queue.publish(queue_topic(name), messages)


async def _set_paused(plane: ControlPlane, name: str, paused: bool) -> QueueState:
    return await update(
        plane, QUEUES, name, lambda queue: _known(queue, name).evolve(paused=paused)
    )


async def move_job(plane: ControlPlane, id: str, request: Move) -> Job:
    """Puts a queued job elsewhere. Raises `IllegalTransition` and `InvalidInput`."""
    job = (await JOBS.get(plane.store, id)).item
    queue = request.queue or job.queue
    await require_queues(plane, [queue])
    if request.to in ("up", "down"):
        if queue != job.queue:
            raise InvalidInput("to", request.to, "front or back when the job changes its queue")
        if job.group:
            raise InvalidInput("to", request.to, "front or back for a job of a group")
        return await _swap(plane, id, request.to == "up")
    position = await _edge(plane, queue, front=request.to == "front")
    now = plane.clock.now()
    order = {member: place for place, member in enumerate(job.members)}
    changed = await change_unit(
        plane, id, lambda job: moved(job, queue, position + order.get(job.id, 0), now)
    )
    if queue == job.queue:
        return changed.job.item
    newest = {stored.item.id: stored.item for stored in await spread(plane, changed.all)}
    return newest[id]


async def _edge(plane: ControlPlane, queue: str, *, front: bool) -> int:
    """A position ahead of, or behind, everything that waits in the queue."""
    query = queries.waiting(queue) if front else queries.last_waiting(queue)
    page, _ = await JOBS.find(plane.store, query.page(1, None))
    now = position_at(plane.clock.now())
    if not page:
        return now
    return page[0].item.position - PLACE if front else max(page[0].item.position + PLACE, now)


async def _swap(plane: ControlPlane, id: str, up: bool) -> Job:
    """Exchanges the positions of a job and its neighbour, both or neither."""
    for attempt in range(TRIES):
        stored = await JOBS.get(plane.store, id)
        job, now = stored.item, plane.clock.now()
        moved(job, job.queue, job.position, now)
        neighbour = await _neighbour(plane, job, up)
        if neighbour is None:
            return job
        ours = moved(job, job.queue, neighbour.item.position, now)
        theirs = moved(neighbour.item, job.queue, job.position, now)
        writes = [JOBS.replace(stored, ours), JOBS.replace(neighbour, theirs)]
        try:
            await plane.store.commit(writes)
        except PreconditionFailed:
            await backoff(attempt)
            continue
        plane.announce(ours)
        return ours
    raise Contended(f"Job {id}")


async def _neighbour(plane: ControlPlane, job: Job, up: bool) -> Stored[Job] | None:
    ask = queries.waiting_before if up else queries.waiting_after
    query: Query = ask(job.queue, job.position)
    page, _ = await JOBS.find(plane.store, query.page(1, None))
    if not page:
        return None
    # The place of a group is that of its first job; past its far end is past all of it.
    unit = [s for s in await load_group(plane, page[0]) if s.item.state is JobState.QUEUED]
    return sorted(unit, key=lambda s: s.item.position)[0 if up else -1]
