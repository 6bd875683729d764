"""Ends auxiliary units once the units that they help have ended."""

from contextlib import suppress
from datetime import timedelta

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import change_unit, spread
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import IllegalTransition
from xmcloud.core.models import Job, JobState, Outcome, StopRequest

LOOK_AGAIN = timedelta(seconds=2)
PAGE = 200


async def end_auxiliary(plane: ControlPlane) -> int:
    """Stops what has helped for long enough after the work was over; how many still help."""
    page, _ = await JOBS.find(plane.store, queries.helping().page(PAGE, None))
    for experiment in sorted({stored.item.experiment_id for stored in page}):
        over = await _work_is_over(plane, experiment)
        for stored in page:
            if stored.item.experiment_id == experiment:
                await _end(plane, stored.item, over)
    if page:
        plane.alarm("auxiliary", plane.clock.now() + LOOK_AGAIN)
    return len(page)


async def _work_is_over(plane: ControlPlane, experiment: str) -> bool:
    """Whether there was work, and none is left that waits or runs."""
    counts = {
        state: await plane.store.count(queries.work_in_state(experiment, state))
        for state in JobState
        if state is not JobState.DRAFT
    }
    ended = sum(count for state, count in counts.items() if state.terminal)
    return ended > 0 and ended == sum(counts.values())


async def _end(plane: ControlPlane, job: Job, over: bool) -> None:
    now = plane.clock.now()
    auxiliary = job.auxiliary
    if auxiliary is None or job.stop is not None or job.state is JobState.DRAFT:
        return
    delay = timedelta(seconds=auxiliary.termination_delay_seconds)
    ends_at = (auxiliary.ends_at or now + delay) if over else None
    if ends_at is not None and ends_at <= now:
        request = StopRequest(
            by="its experiment",
            message="the units that it helps have ended",
            outcome=Outcome.COMPLETED,
            at=now,
        )
        with suppress(IllegalTransition):  # it has ended meanwhile, or with its group
            done = await change_unit(plane, job.id, lambda j: lifecycle.stopped(j, request))
            await spread(plane, done.all)
    elif ends_at != auxiliary.ends_at:
        await change_unit(plane, job.id, lambda j: lifecycle.outlives(j, ends_at, now))
