"""Finds out why jobs wait, with few reads: what jobs have in common is read once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xmcloud.core import pending, queries
from xmcloud.core.builds import Build
from xmcloud.core.concurrency import for_each
from xmcloud.core.control.changing import target_session
from xmcloud.core.control.dispatch import load_state
from xmcloud.core.control.gathering import could_ever_fit, neediest_first, vain_until
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import paused_queues
from xmcloud.core.control.quotas import Turn
from xmcloud.core.documents import BUILDS, EXPERIMENTS, JOBS, POOLS, SESSIONS, Stored
from xmcloud.core.models import Gathering, Job, JobState, PoolState, Session
from xmcloud.core.pending_facts import (
    Facts,
    Pool,
    Room,
    TargetFacts,
    Worker,
    fits,
    serving_workers,
)
from xmcloud.core.protocol import Cause, Pending, PendingExperiment, PendingJobs, QueuePlace

JOBS_TOLD = 2000
"""Waiting jobs of an experiment that one answer tells of."""

WORKERS_LOOKED_AT = 50
"""Workers whose free slots are looked up for one answer."""

PAGE = 400
WAITING = (JobState.QUEUED, JobState.BUILDING, JobState.DRAFT)


async def why_pending(plane: ControlPlane, id: str) -> Pending:
    """Raises `NotFound`."""
    stored = await JOBS.get(plane.store, id)
    job = stored.item
    if job.state not in WAITING:
        return Pending(job_id=id, state=job.state)
    ((_, facts),), place = await asyncio.gather(_facts(plane, [stored]), _place(plane, job))
    facts = replace(facts, place=place, reference=id[:8])
    return Pending(job_id=id, state=job.state, place=place, causes=pending.causes(job, facts))


async def why_pending_in(plane: ControlPlane, experiment: str) -> PendingExperiment:
    """Its jobs by what they wait for. Raises `NotFound`."""
    await EXPERIMENTS.get(plane.store, experiment)
    found, total = await _waiting(plane, experiment)
    together: dict[tuple[str, ...], tuple[list[Cause], list[str]]] = {}
    for job, facts in await _facts(plane, found):
        causes = pending.causes(job, facts)
        key = tuple(cause.message for cause in causes)
        together.setdefault(key, (causes, []))[1].append(job.id)
    told = [PendingJobs(causes=causes, jobs=jobs) for causes, jobs in together.values()]
    return PendingExperiment(pending=told, left_out=total - len(found))


async def _waiting(plane: ControlPlane, experiment: str) -> tuple[list[Stored[Job]], int]:
    """The jobs that wait, as many as are told of, and how many they are in all."""
    found: list[Stored[Job]] = []
    total = 0
    for state in WAITING:
        query, cursor, more = queries.jobs_in_state(experiment, state), None, True
        while more and len(found) < JOBS_TOLD:
            size = min(PAGE, JOBS_TOLD - len(found))
            page, cursor = await JOBS.find(plane.store, query.page(size, cursor))
            found += page
            total += len(page)
            more = cursor is not None
        if more:
            total = await _count(plane, experiment)
            break
    return found, total


async def _count(plane: ControlPlane, experiment: str) -> int:
    each = (plane.store.count(queries.jobs_in_state(experiment, state)) for state in WAITING)
    return sum(await asyncio.gather(*each))


async def _place(plane: ControlPlane, job: Job) -> QueuePlace | None:
    if job.state is not JobState.QUEUED:
        return None
    ahead, waiting = await asyncio.gather(
        plane.store.count(queries.waiting_before(job.queue, job.position)),
        plane.store.count(queries.waiting(job.queue)),
    )
    return QueuePlace(queue=job.queue, place=ahead + 1, waiting=max(waiting, ahead + 1))


async def _facts(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[tuple[Job, Facts]]:
    """What is true of each; a draft needs nothing looked up."""
    queued = [stored for stored in jobs if stored.item.state is JobState.QUEUED]
    names = {s.item.pool for s in queued if _for_target(plane, s.item)}
    units, builds, paused, targets, sessions = await asyncio.gather(
        _units(plane, queued),
        _builds(plane, [stored.item for stored in jobs]),
        paused_queues(plane),
        _targets(plane, names),
        _sessions(plane, any(not _for_target(plane, stored.item) for stored in queued)),
    )
    yard = await _yard(plane, queued, units, sessions)
    turn = Turn(plane)
    now, told = plane.clock.now(), []
    for job in (stored.item for stored in jobs):
        facts = Facts(now, [job], "ID", builds.get(job.pending_build or ""))
        if job.state is JobState.QUEUED:
            unit = units[job.members[0]]
            facts = replace(
                facts,
                unit=[stored.item for stored in unit],
                paused=job.queue in paused,
                excess=await turn.excess([each.item for each in _left(unit)]),
                for_target=_for_target(plane, job),
                target=targets.get(job.pool),
                workers=yard.workers(job),
                pools=yard.pools(job, unit),
            )
        told.append((job, facts))
    return told


def _left(unit: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """What is to start together."""
    return [stored for stored in unit if stored.item.state is not JobState.COMPLETED]


def _for_target(plane: ControlPlane, job: Job) -> bool:
    """It waits for a target, though the control plane may have lost that."""
    sent = job.spec.platform is not None and job.spec.overflow is None
    return job.pool in plane.targets or job.overflowed or sent


async def _units(
    plane: ControlPlane, queued: Sequence[Stored[Job]]
) -> dict[str, list[Stored[Job]]]:
    """By its first job's id, what starts together."""
    known = {stored.item.id: stored for stored in queued}
    members = {stored.item.members[0]: stored.item.members for stored in queued}
    missing = sorted({id for ids in members.values() for id in ids} - known.keys())
    for stored in await JOBS.get_many(plane.store, missing):
        if stored is not None:
            known[stored.item.id] = stored
    return {first: [known[id] for id in ids if id in known] for first, ids in members.items()}


async def _builds(plane: ControlPlane, jobs: Sequence[Job]) -> dict[str, Build]:
    ids = {job.pending_build for job in jobs if job.state is JobState.BUILDING}
    found = await BUILDS.get_many(plane.store, sorted(id for id in ids if id))
    return {stored.item.id: stored.item for stored in found if stored is not None}


async def _targets(plane: ControlPlane, names: set[str]) -> dict[str, TargetFacts]:
    async def one(name: str) -> TargetFacts:
        target = plane.targets[name]
        running, (_, state) = await asyncio.gather(
            plane.store.count(queries.held_by(target_session(name))),
            load_state(plane, name, plane.clock.now()),
        )
        return TargetFacts(
            target.limit, target.per_minute, running, state.submissions, state.blocks
        )

    known = sorted(names & plane.targets.keys())
    return dict(zip(known, await asyncio.gather(*map(one, known)), strict=True))


async def _sessions(plane: ControlPlane, wanted: bool) -> list[Session]:
    """Of the workers that are connected."""
    if not wanted:
        return []
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    return [stored.item for stored in page if stored.item.valid_at(plane.clock.now())]


@dataclass(slots=True)
class _Yard:
    """The workers that are connected, and what is free of those that were looked at."""

    sessions: list[Session]
    states: dict[str, PoolState]
    rooms: dict[str, Room] = field(default_factory=dict)

    def workers(self, job: Job) -> list[Worker]:
        return [
            Worker(session, self.rooms.get(session.id))
            for session in self.sessions
            if job.pool in ("", session.pool)
        ]

    def pools(self, job: Job, unit: Sequence[Stored[Job]]) -> list[Pool]:
        """Those that may start the group; none for a job alone."""
        if not job.group:
            return []
        left = _left(unit)
        names = dict.fromkeys(worker.session.pool for worker in self.workers(job))
        return [self._pool(name, left) for name in names]

    def _pool(self, name: str, left: Sequence[Stored[Job]]) -> Pool:
        state = self.states[name]
        mine = [session for session in self.sessions if session.pool == name]
        first = [stored.item for stored in neediest_first(left, mine)]
        return Pool(name, state.gathering, state.vain, could_ever_fit(mine, first))


async def _yard(
    plane: ControlPlane,
    queued: Sequence[Stored[Job]],
    units: dict[str, list[Stored[Job]]],
    sessions: list[Session],
) -> _Yard:
    names, now = sorted({session.pool for session in sessions}), plane.clock.now()
    found = await POOLS.get_many(plane.store, names)
    states = {
        name: stored.item if stored else PoolState(name=name)
        for name, stored in zip(names, found, strict=True)
    }
    # A gathering that has just come to nothing is noted only when the next one begins.
    states = {name: each.evolve(vain=vain_until(each, now)) for name, each in states.items()}
    yard = _Yard(sessions, states)
    kinds = {
        repr((job.queue, job.pool, job.spec.resources)): job
        for stored in queued
        for job in (member.item for member in units[stored.item.members[0]])
        if not _for_target(plane, job)
    }
    able: dict[str, Session] = {}
    for job in kinds.values():
        serving = serving_workers(job, yard.workers(job))
        fitting = [w.session for w in serving if fits(job, w.session.resources)]
        able |= {session.id: session for session in fitting[:WORKERS_LOOKED_AT]}

    async def look(session: Session) -> None:
        gathering = states[session.pool].gathering
        yard.rooms[session.id] = await _room(plane, session, gathering)

    await for_each(able.values(), look)
    return yard


async def _room(plane: ControlPlane, session: Session, gathering: Gathering | None) -> Room:
    """Jobs are read only where their number does not tell all."""
    held = queries.held_by(session.id)
    count = await plane.store.count(held)
    kept = 0
    if gathering is not None and gathering.deadline > plane.clock.now():
        kept = sum(place.session == session.id for place in gathering.places.values())
    resources = dict(session.resources)
    if 0 < count < session.slots and resources:
        page, _ = await JOBS.find(plane.store, held.page(PAGE, None))
        for job in (stored.item for stored in page):
            for name, amount in job.spec.resources.items():
                resources[name] = resources.get(name, 0.0) - amount
    return Room(session.slots - count - kept, resources)
