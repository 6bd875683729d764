"""Worker sessions: opening, renewing and ending the leases that attempts hang on."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from xmcloud.core import lifecycle, queries
from xmcloud.core.concurrency import for_each
from xmcloud.core.control.changing import apply_jobs, change_job, spread, tell_sessions
from xmcloud.core.control.logs import log_size
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.queues import load_queues, visible
from xmcloud.core.control.statistics import worker_statistics
from xmcloud.core.documents import JOBS, SESSIONS, Stored
from xmcloud.core.errors import Contended, LeaseLost, NotFound, StaleFence
from xmcloud.core.models import Job, Reason, ReasonCode, Session, Wanted
from xmcloud.core.names import random_id
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.protocol import Sessions, WorkerStatus
from xmcloud.core.topics import control_subscription, subscriptions
from xmcloud.core.worker_protocol import AttemptRef, Held, Lease, OpenSession

SETTLING = timedelta(minutes=2)
"""Longer than any request runs: a claim that was under way when its session ended is visible."""

PAGE = 200


async def open_session(plane: ControlPlane, worker: str, request: OpenSession) -> Lease:
    """A worker starts, or comes back: what it still holds goes on, the rest runs again at once.

    Killed in between, what was taken over is lost with the new session's lease.
    """
    await load_queues(plane, request.queues)
    id = random_id()
    await plane.queue.subscribe(subscriptions(id, request.pool, request.queues))
    earlier, _ = await SESSIONS.find(plane.store, queries.open_sessions_of(worker))
    drains = any(stored.item.wanted is Wanted.DRAIN for stored in earlier)
    now = plane.clock.now()
    session = Session(
        id=id,
        worker=worker,
        principal=plane.caller.name,
        pool=request.pool,
        queues=request.queues,
        slots=request.slots,
        resources=request.resources,
        gpus=request.gpus,
        wanted=Wanted.DRAIN if drains else Wanted.RUN,
        version=request.version,
        host=request.host,
        address=request.address,
        opened_at=now,
        renewed_at=now,
        expires_at=now + plane.lease,
    )
    await plane.store.commit([SESSIONS.create(session)])
    plane.alarm(session.id, session.expires_at)
    held = await _adopt(plane, session, request.holds)
    for stored in earlier:
        await end_session(plane, stored.item.id, f"worker {worker} was started again")
    return Lease(
        session=session,
        lease_seconds=plane.lease.total_seconds(),
        heartbeat_seconds=plane.heartbeat.total_seconds(),
        held=held,
    )


async def _adopt(plane: ControlPlane, session: Session, refs: Sequence[AttemptRef]) -> list[Held]:
    held: list[Held] = []

    async def adopt(ref: AttemptRef) -> None:
        def decide(job: Job) -> Job:
            now = plane.clock.now()
            return lifecycle.adopted(job, ref.fence, session.worker, session.id, now)

        with suppress(StaleFence, NotFound):
            job = (await change_job(plane, ref.job_id, decide)).job.item
            held.append(Held(job=job, output=await log_size(plane, job.id, ref.fence)))

    await for_each(refs, adopt)
    return held


async def worker_status(plane: ControlPlane, name: str) -> WorkerStatus:
    """A worker that is connected, and what it does for the caller to see. Raises `NotFound`."""
    session = (await _open_session_of(plane, name)).item
    (page, _), statistics = await asyncio.gather(
        JOBS.find(plane.store, queries.held_by(session.id).page(1000, None)),
        worker_statistics(plane, name),
    )
    return WorkerStatus(
        session=session,
        jobs=visible(plane, (stored.item for stored in page)),
        statistics=statistics,
    )


async def order_worker(plane: ControlPlane, name: str, wanted: Wanted) -> Session:
    """It hears so with its next exchange, at once when it is busy. Raises `NotFound`."""
    for attempt in range(TRIES):
        stored = await _open_session_of(plane, name)
        ordered = stored.item.evolve(wanted=wanted)
        try:
            await plane.store.commit([SESSIONS.replace(stored, ordered)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        await tell_sessions(plane, {ordered.id})
        return ordered
    raise Contended(f"Worker {name}")


async def _open_session_of(plane: ControlPlane, name: str) -> Stored[Session]:
    found, _ = await SESSIONS.find(plane.store, queries.open_sessions_of(name))
    if not found:
        raise NotFound("connected worker", name, "See which are: xmcloud worker list")
    return max(found, key=lambda stored: stored.item.opened_at)


async def list_sessions(plane: ControlPlane) -> Sessions:
    """The open ones."""
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    return Sessions(sessions=[stored.item for stored in page])


async def held_session(plane: ControlPlane, id: str, closed: str = "") -> Session:
    """The session, its lease renewed when half a heartbeat has passed. Raises `LeaseLost`.

    `closed` says why it takes no jobs, if it does not.
    """
    for attempt in range(TRIES):
        stored = await SESSIONS.get(plane.store, id)
        session, now = stored.item, plane.clock.now()
        _require_own(plane, session)
        if not session.valid_at(now):
            raise LeaseLost(id)
        if now - session.renewed_at < plane.heartbeat / 2 and closed == session.closed:
            return session
        renewed = session.evolve(renewed_at=now, expires_at=now + plane.lease, closed=closed)
        try:
            await plane.store.commit([SESSIONS.replace(stored, renewed)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        plane.alarm(id, renewed.expires_at)
        return renewed
    raise Contended(f"Session {id}")


def _require_own(plane: ControlPlane, session: Session) -> None:
    """Raises `NotFound` for a session that somebody else opened."""
    if session.principal != plane.caller.name and not plane.caller.owner:
        raise NotFound("session", session.id)


async def end_session(plane: ControlPlane, id: str, why: str) -> Session:
    """Closes the session, so that nothing it sends counts any more, then loses its attempts.

    Killed in between, the sweep finds the session unsettled and goes on here.
    """
    for attempt in range(TRIES):
        stored = await SESSIONS.get(plane.store, id)
        session = stored.item
        if session.open:
            session = session.evolve(closed_at=plane.clock.now())
            try:
                await plane.store.commit([SESSIONS.replace(stored, session)])
            except PreconditionFailed:
                await backoff(attempt)
                continue
        await lose_attempts(plane, session, why)
        await plane.queue.unsubscribe([control_subscription(id)])
        plane.alarm(id, plane.clock.now() + SETTLING)
        return session
    raise Contended(f"Session {id}")


async def close_session(plane: ControlPlane, id: str) -> Session:
    """The worker leaves. Raises `NotFound`."""
    _require_own(plane, (await SESSIONS.get(plane.store, id)).item)
    return await end_session(plane, id, "its worker left")


async def lose_attempts(plane: ControlPlane, session: Session, why: str) -> int:
    """Sends the jobs of a closed session back to their queues; how many there were."""
    reason = Reason(code=ReasonCode.LOST_WORKER, message=f"worker {session.worker} lost: {why}")
    total = 0
    while True:
        page, _ = await JOBS.find(plane.store, queries.held_by(session.id).page(PAGE, None))
        if not page:
            return total
        total += len(page)
        await spread(plane, await _lose(plane, page, session, reason))


async def _lose(
    plane: ControlPlane, page: Sequence[Stored[Job]], session: Session, reason: Reason
) -> list[Stored[Job]]:
    def decide(job: Job) -> Job:
        attempt = job.attempt
        if attempt is None or attempt.session != session.id:
            return job
        return lifecycle.lost(job, attempt.fence, reason, plane.clock.now())

    alone = [stored for stored in page if not stored.item.group]
    applied = await apply_jobs(plane, [(stored, decide(stored.item)) for stored in alone])
    done = [stored for stored in applied if stored is not None]
    kept = {stored.item.id for stored in done}
    for stored in page:
        if stored.item.id not in kept:
            done += (await change_job(plane, stored.item.id, decide)).all
    return done


async def regrant_leases(plane: ControlPlane) -> int:
    """Gives every open session a full lease again; how many there are.

    For a control plane that was away itself: the time it could not be reached is held against no
    worker. Only a session that was never declared lost can be renewed so.
    """
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    now = plane.clock.now()
    renewed = [(s, s.item.evolve(renewed_at=now, expires_at=now + plane.lease)) for s in page]
    await plane.store.apply([SESSIONS.replace(stored, session) for stored, session in renewed])
    return len(page)
