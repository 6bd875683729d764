"""When a job leaves the queue of its pool for its overflow target."""

from collections.abc import Sequence
from datetime import timedelta

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import change_unit, spread
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS, SESSIONS
from xmcloud.core.models import Job, JobState, Session

PAGE = 200


async def at_once(plane: ControlPlane, units: Sequence[Sequence[Job]]) -> set[str]:
    """The ids of jobs that no worker of their pool could ever fit, with their groups.

    A pool without any worker may get one in time: that is no reason yet.
    """
    wanted = [unit for unit in units if any(job.spec.overflow for job in unit)]
    if not wanted:
        return set()
    page, _ = await SESSIONS.find(plane.store, queries.open_sessions().page(500, None))
    sessions = [stored.item for stored in page if stored.item.valid_at(plane.clock.now())]
    return {job.id for unit in wanted if _never_fits(unit, sessions) for job in unit}


def _never_fits(unit: Sequence[Job], sessions: Sequence[Session]) -> bool:
    pool = unit[0].spec.pool
    mine = [session for session in sessions if pool in ("", session.pool)]
    return bool(mine) and not all(any(_fits(job, s) for s in mine) for job in unit)


def _fits(job: Job, session: Session) -> bool:
    wanted = job.spec.resources.items()
    return all(session.resources.get(name, 0.0) >= amount for name, amount in wanted)


async def overflow_due(plane: ControlPlane) -> int:
    """Sends what waited long enough to its target; how many jobs that were."""
    page, _ = await JOBS.find(plane.store, queries.overflow_due(plane.clock.now()).page(PAGE, None))
    total = 0
    for leader in dict.fromkeys(stored.item.members[0] for stored in page):
        changed = await change_unit(plane, leader, lambda job: _overflowed(plane, job))
        await spread(plane, changed.all)
        total += len(changed.all)
    return total


def _overflowed(plane: ControlPlane, job: Job) -> Job:
    """The job on its way; one that was claimed, or sent, meanwhile stays as it is."""
    overflow, now = job.spec.overflow, plane.clock.now()
    due = job.waiting.overflow_at if job.waiting else None
    if job.state is not JobState.QUEUED or overflow is None or due is None or due > now:
        return job
    waited = timedelta(seconds=overflow.after_seconds)
    pool = job.spec.pool or "any pool"
    message = f"no worker of {pool} took it within {waited}: it goes to {overflow.target}"
    return lifecycle.overflowed(job, message, now)
