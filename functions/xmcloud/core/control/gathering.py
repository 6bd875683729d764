"""How a group gets all its slots at once, on one worker or, claim by claim, on several.

A pool's workers serve one gathering at a time, so two groups cannot each hold what the other
needs. Its reservations are one document; the jobs stay queued until the last place is found,
and then all start in one commit. At its deadline a gathering ends, and the group lets others go
first for as long as it held on; the next time it holds on for longer.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import commit_jobs, tell_sessions
from xmcloud.core.control.free import Free
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.documents import JOBS, POOLS, SESSIONS, Stored
from xmcloud.core.errors import Contended, Unavailable
from xmcloud.core.models import Gathering, Job, JobState, Peer, Place, PoolState, Session, Vain
from xmcloud.core.ports import Message, PreconditionFailed, Write
from xmcloud.core.topics import queue_topic
from xmcloud.core.worker_protocol import Reservation

HOLD = timedelta(seconds=20)
LONGEST_HOLD = timedelta(minutes=10)


@dataclass(slots=True)
class Taken:
    """Of one group, for one worker."""

    jobs: list[Job] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)


async def take(
    plane: ControlPlane,
    session: Session,
    unit: Sequence[Stored[Job]],
    free: Free,
    passing: Sequence[Write] = (),
) -> Taken | None:
    """What this worker gets of a group of which everything waits; `passing` goes with its start.

    None when another group gathers, when all workers of the pool together are too small, or when
    somebody else was faster.
    """
    jobs = [stored.item for stored in unit]
    if len(free.ports) >= len(jobs) and free.take_all(jobs):
        ports, free.ports = free.ports[: len(jobs)], free.ports[len(jobs) :]
        places = {
            job.id: Place(session=session.id, port=port)
            for job, port in zip(jobs, ports, strict=True)
        }
        started = await _start(plane, unit, places, {session.id: session}, passing)
        if started is None:
            free.give_back(jobs)
            free.ports += ports
            return None
        return Taken(jobs=started)
    return await _gather(plane, session, unit, free, passing)


async def _gather(
    plane: ControlPlane,
    session: Session,
    unit: Sequence[Stored[Job]],
    free: Free,
    passing: Sequence[Write],
) -> Taken | None:
    for attempt in range(TRIES):
        now = plane.clock.now()
        stored, pool = await _pool(plane, session.pool)
        vain = vain_until(pool, now)
        found = await _gathering(plane, pool, vain, unit[0].item.members[0], now)
        if found is None:
            return None
        workers = await _workers(plane, pool.name, now)
        unit = neediest_first(unit, workers)
        if not found.places and not could_ever_fit(workers, [each.item for each in unit]):
            return None
        pool = pool.evolve(vain=vain)
        found, sessions = await _still_there(plane, found, unit, session, now)
        placed = _place(found, unit, session, free)
        if placed.places == found.places:
            return None
        new = [each.item for each in unit if each.item.id in placed.places.keys() - found.places]
        if placed.places.keys() == {each.item.id for each in unit}:
            over = pool.evolve(gathering=None, vain=_without(pool.vain, placed.leader))
            writes = [_write(stored, over), *passing]
            started = await _start(plane, unit, placed.places, sessions, writes)
            if started is not None:
                here = [j for j in started if j.attempt and j.attempt.session == session.id]
                return Taken(jobs=here)
            _give_back(placed, new, free)
            return None
        if await _kept(plane, _write(stored, pool.evolve(gathering=placed))):
            await _call_for_the_rest(plane, session.pool, unit, placed)
            return Taken(reservations=_reservations(new, placed.deadline - now))
        _give_back(placed, new, free)
        await backoff(attempt)
    raise Contended(f"Pool {session.pool}")


async def _call_for_the_rest(
    plane: ControlPlane, pool: str, unit: Sequence[Stored[Job]], placed: Gathering
) -> None:
    """Workers of the pool that have room now hear so, though they gave the group's permits back."""
    missing = [each.item.id for each in unit if each.item.id not in placed.places]
    with suppress(Unavailable):
        topic = queue_topic(unit[0].item.queue)
        await plane.queue.publish(topic, [Message(pool, id) for id in missing])


async def kept_places(plane: ControlPlane, session: Session) -> list[Reservation]:
    """What is kept on this worker, for one that may not have heard of it."""
    _, pool = await _pool(plane, session.pool)
    now, found = plane.clock.now(), pool.gathering
    if found is None or found.deadline <= now:
        return []
    mine = [id for id, place in found.places.items() if place.session == session.id]
    jobs = await JOBS.get_many(plane.store, mine) if mine else []
    waiting = [s.item for s in jobs if s is not None and s.item.state is JobState.QUEUED]
    return _reservations(waiting, found.deadline - now)


def _reservations(jobs: Sequence[Job], time: timedelta) -> list[Reservation]:
    seconds = time.total_seconds()
    return [Reservation(job_id=j.id, resources=j.spec.resources, seconds=seconds) for j in jobs]


async def _pool(plane: ControlPlane, name: str) -> tuple[Stored[PoolState] | None, PoolState]:
    (stored,) = await POOLS.get_many(plane.store, [name])
    return stored, stored.item if stored else PoolState(name=name)


def _write(stored: Stored[PoolState] | None, pool: PoolState) -> Write:
    return POOLS.replace(stored, pool) if stored else POOLS.create(pool)


async def _kept(plane: ControlPlane, write: Write) -> bool:
    try:
        await plane.store.commit([write])
    except PreconditionFailed:
        return False
    return True


async def _gathering(
    plane: ControlPlane, pool: PoolState, vain: dict[str, Vain], leader: str, now: datetime
) -> Gathering | None:
    """The one under way if it is this group's, a new one if it may begin."""
    current = pool.gathering
    if current is not None and now < current.deadline:
        if current.leader == leader:
            return current
        if await _still_waits(plane, pool.name, current):
            return None
    mine = vain.get(leader)
    if mine is not None and now < mine.rests_until:
        return None
    return Gathering(leader=leader, deadline=now + _hold(mine.count if mine else 0))


async def _still_waits(plane: ControlPlane, pool: str, gathering: Gathering) -> bool:
    """Nobody took its group out of the queue, started it elsewhere or sent it to a target."""
    found = await JOBS.get_many(plane.store, [*gathering.places][:1])
    jobs = [stored.item for stored in found if stored is not None]
    return any(job.state is JobState.QUEUED and job.pool in ("", pool) for job in jobs)


def _hold(count: int) -> timedelta:
    return min(HOLD * float(2**count), LONGEST_HOLD)


def vain_until(pool: PoolState, now: datetime) -> dict[str, Vain]:
    """What came to nothing, with a gathering that just did; forgotten after a while."""
    vain = {leader: v for leader, v in pool.vain.items() if now - v.rests_until < LONGEST_HOLD * 6}
    if (over := pool.gathering) is not None and over.deadline <= now:
        count = vain[over.leader].count + 1 if over.leader in vain else 1
        rests = over.deadline + _hold(count - 1)
        vain[over.leader] = Vain(count=count, rests_until=rests)
    return vain


def _without(vain: dict[str, Vain], leader: str) -> dict[str, Vain]:
    return {id: each for id, each in vain.items() if id != leader}


async def _workers(plane: ControlPlane, pool: str, now: datetime) -> list[Session]:
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    return [s.item for s in page if s.item.pool == pool and s.item.valid_at(now)]


def _empty(workers: Sequence[Session]) -> list[Free]:
    return [Free(worker.slots, dict(worker.resources), []) for worker in workers]


def neediest_first(
    unit: Sequence[Stored[Job]], workers: Sequence[Session]
) -> Sequence[Stored[Job]]:
    """What few workers could run has the first choice of places."""
    empty = _empty(workers)
    return sorted(unit, key=lambda stored: sum(free.fits(stored.item) for free in empty))


def could_ever_fit(workers: Sequence[Session], jobs: Sequence[Job]) -> bool:
    """Whether these workers, all of them empty, have room for the group."""
    empty = _empty(workers)
    for job in jobs:
        room = next((free for free in empty if free.slots and free.fits(job)), None)
        if room is None:
            return False
        room.take(job)
    return True


async def _still_there(
    plane: ControlPlane,
    gathering: Gathering,
    unit: Sequence[Stored[Job]],
    session: Session,
    now: datetime,
) -> tuple[Gathering, dict[str, Session]]:
    """The gathering without the places of workers that are gone, and the sessions of the rest."""
    waiting = {stored.item.id for stored in unit}
    ids = sorted({place.session for place in gathering.places.values()} - {session.id})
    found = await SESSIONS.get_many(plane.store, ids) if ids else []
    sessions = {s.item.id: s.item for s in found if s is not None and s.item.valid_at(now)}
    sessions[session.id] = session
    places = {
        id: place
        for id, place in gathering.places.items()
        if id in waiting and place.session in sessions
    }
    return gathering.evolve(places=places), sessions


def _place(
    gathering: Gathering, unit: Sequence[Stored[Job]], session: Session, free: Free
) -> Gathering:
    """With a place on this worker for each further job that fits, taken off `free`."""
    places = dict(gathering.places)
    for job in (stored.item for stored in unit):
        if job.id not in places and free.slots and free.ports and free.fits(job):
            free.take(job)
            places[job.id] = Place(session=session.id, port=free.ports.pop(0))
    return gathering.evolve(places=places)


def _give_back(gathering: Gathering, jobs: Sequence[Job], free: Free) -> None:
    free.give_back(jobs)
    free.ports += [gathering.places[job.id].port for job in jobs]


async def _start(
    plane: ControlPlane,
    unit: Sequence[Stored[Job]],
    places: dict[str, Place],
    sessions: dict[str, Session],
    writes: Sequence[Write],
) -> list[Job] | None:
    """Claims the whole group in one commit, and has the other workers ask for their part."""
    peers = {stored.item.name: _peer(places[stored.item.id], sessions) for stored in unit}
    now = plane.clock.now()
    claims = []
    for stored in unit:
        holder = sessions[places[stored.item.id].session]
        job = lifecycle.claimed(stored.item, holder.worker, holder.id, now, peers)
        claims.append((stored, job))
    done = await commit_jobs(plane, claims, writes)
    if done is None:
        return None
    await tell_sessions(plane, {place.session for place in places.values()})
    return [stored.item for stored in done]


def _peer(place: Place, sessions: dict[str, Session]) -> Peer:
    session = sessions[place.session]
    return Peer(host=session.address or session.host or "127.0.0.1", port=place.port)
