"""What must happen though nobody asks: leases run out, permits and events get lost."""

import asyncio
import logging
from dataclasses import dataclass

from xmcloud.core import queries
from xmcloud.core.control.auxiliary import end_auxiliary
from xmcloud.core.control.builds import look_at_builds
from xmcloud.core.control.changing import publish_permits
from xmcloud.core.control.migrating import migrate
from xmcloud.core.control.observing import look_at_targets
from xmcloud.core.control.overflow import overflow_due
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sessions import SETTLING, end_session, lose_attempts
from xmcloud.core.documents import JOBS, SESSIONS
from xmcloud.core.logs import about
from xmcloud.core.models import Session
from xmcloud.core.ports import Write

PAGE = 400

logger = logging.getLogger("xmcloud.sweep")


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    lost_sessions: int
    settled_sessions: int
    published_permits: int
    overflowed_jobs: int = 0


async def sweep(plane: ControlPlane) -> Swept:
    """Safe to run at any time, by several at once, and to be killed in the middle."""
    lost = await _end_expired(plane)
    settled = await _settle(plane)
    overflowed = await overflow_due(plane)
    published = await _publish_due(plane)
    await end_auxiliary(plane)
    await look_at_builds(plane)
    await look_at_targets(plane)
    await _set_alarms(plane)
    await migrate(plane)
    return Swept(lost, settled, published, overflowed)


async def _end_expired(plane: ControlPlane) -> int:
    query = queries.expired_sessions(plane.clock.now()).page(PAGE, None)
    page, _ = await SESSIONS.find(plane.store, query)
    for stored in page:
        await end_session(plane, stored.item.id, "its lease ran out")
        _log_loss(stored.item)
    return len(page)


def _log_loss(session: Session) -> None:
    logger.info(
        "worker %s of pool %s is lost: its lease ran out",
        session.worker,
        session.pool,
        extra=about(event="worker_lost", worker=session.worker, pool=session.pool),
    )


async def _settle(plane: ControlPlane) -> int:
    """Looks once more at what closed sessions held, until no late claim can appear."""
    page, _ = await SESSIONS.find(plane.store, queries.unsettled_sessions().page(PAGE, None))
    now = plane.clock.now()
    done: list[Write] = []
    for stored in page:
        await lose_attempts(plane, stored.item, "its session ended")
        closed = stored.item.closed_at
        if closed is not None and now - closed >= SETTLING:
            done.append(SESSIONS.replace(stored, stored.item.evolve(settled=True)))
    if done:
        await plane.store.apply(done)
    return len(done)


async def _publish_due(plane: ControlPlane) -> int:
    total = 0
    while True:
        query = queries.due_permits(plane.clock.now()).page(PAGE, None)
        page, cursor = await JOBS.find(plane.store, query)
        published = await publish_permits(plane, page) if page else []
        total += len(published)
        if cursor is None or published == page:
            return total


async def _set_alarms(plane: ControlPlane) -> None:
    """For each lease that will run out, each session to settle and the first permit due."""
    opened, unsettled, queued, overflowing = await asyncio.gather(
        SESSIONS.find(plane.store, queries.open_sessions().page(PAGE, None)),
        SESSIONS.find(plane.store, queries.unsettled_sessions().page(PAGE, None)),
        JOBS.find(plane.store, queries.next_due_permit().page(1, None)),
        JOBS.find(plane.store, queries.next_overflow().page(1, None)),
    )
    for session in (stored.item for stored in (*opened[0], *unsettled[0])):
        due = session.expires_at if session.closed_at is None else session.closed_at + SETTLING
        plane.alarm(session.id, due)
    for job in (stored.item for stored in queued[0]):
        if job.waiting is not None:
            plane.alarm("permits", job.waiting.permit_due_at)
    for job in (stored.item for stored in overflowing[0]):
        if job.waiting is not None and job.waiting.overflow_at is not None:
            plane.alarm("overflow", job.waiting.overflow_at)
