"""Worker sessions: opening, renewing and ending the leases that attempts hang on."""

from collections.abc import Sequence
from datetime import timedelta

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import apply_jobs, change_job, spread
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.queues import load_queues
from xmcloud.core.documents import JOBS, SESSIONS, Stored
from xmcloud.core.errors import Contended, LeaseLost
from xmcloud.core.models import Job, Reason, ReasonCode, Session
from xmcloud.core.names import random_id
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.protocol import Sessions
from xmcloud.core.topics import control_subscription, subscriptions
from xmcloud.core.worker_protocol import Lease, OpenSession

SETTLING = timedelta(minutes=2)
"""Longer than any request runs: a claim that was under way when its session ended is visible."""

PAGE = 200


async def open_session(plane: ControlPlane, worker: str, request: OpenSession) -> Lease:
    """A worker starts; what an earlier run of it held runs again at once."""
    await load_queues(plane, request.queues)
    id = random_id()
    await plane.queue.subscribe(subscriptions(id, request.pool, request.queues))
    earlier, _ = await SESSIONS.find(plane.store, queries.open_sessions_of(worker))
    for stored in earlier:
        await end_session(plane, stored.item.id, f"worker {worker} was started again")
    now = plane.clock.now()
    session = Session(
        id=id,
        worker=worker,
        pool=request.pool,
        queues=request.queues,
        slots=request.slots,
        resources=request.resources,
        version=request.version,
        host=request.host,
        address=request.address,
        opened_at=now,
        renewed_at=now,
        expires_at=now + plane.lease,
    )
    await plane.store.commit([SESSIONS.create(session)])
    plane.alarm(session.id, session.expires_at)
    return Lease(
        session=session,
        lease_seconds=plane.lease.total_seconds(),
        heartbeat_seconds=plane.heartbeat.total_seconds(),
    )


async def list_sessions(plane: ControlPlane) -> Sessions:
    """The open ones."""
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    return Sessions(sessions=[stored.item for stored in page])


async def held_session(plane: ControlPlane, id: str) -> Session:
    """The session, its lease renewed when half a heartbeat has passed. Raises `LeaseLost`."""
    for attempt in range(TRIES):
        stored = await SESSIONS.get(plane.store, id)
        session, now = stored.item, plane.clock.now()
        if not session.valid_at(now):
            raise LeaseLost(id)
        if now - session.renewed_at < plane.heartbeat / 2:
            return session
        renewed = session.evolve(renewed_at=now, expires_at=now + plane.lease)
        try:
            await plane.store.commit([SESSIONS.replace(stored, renewed)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        plane.alarm(id, renewed.expires_at)
        return renewed
    raise Contended(f"Session {id}")


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
    """The worker leaves."""
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
