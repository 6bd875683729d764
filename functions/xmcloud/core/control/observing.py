"""What platforms do with the jobs that were submitted: told by events, and asked by the sweep."""

from collections.abc import Sequence
from contextlib import suppress

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import change_job, load_group, spread, target_session
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.submissions import (
    SUBMITTING,
    label_of,
    observed,
    record,
    submit,
)
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import StaleFence, Unavailable
from xmcloud.core.models import Job, Outcome, Reason, ReasonCode

PAGE = 400


async def platform_event(plane: ControlPlane, body: str) -> None:
    """Looks at the job that an event of one of the platforms is about."""
    for name, target in plane.targets.items():
        remote = target.platform.event(body)
        if remote is None:
            continue
        page, _ = await JOBS.find(plane.store, queries.run_as(remote).page(PAGE, None))
        unit = [stored.item for stored in page]
        if unit:
            await observed(plane, unit, await target.platform.get(remote))
            await dispatch(plane, name)


async def look_at_targets(plane: ControlPlane) -> int:
    """For the sweep: asks every platform about every job it has; how many jobs that are."""
    total = 0
    for name in plane.targets:
        with suppress(Unavailable):
            total += await _look(plane, name)
        await dispatch(plane, name)
    return total


async def _look(plane: ControlPlane, name: str) -> int:
    held = await _held(plane, name)
    if held:
        plane.alarm(f"look/{name}", plane.clock.now() + SUBMITTING)
    by_remote: dict[str, list[Job]] = {}
    for job in held:
        remote = job.attempt.remote if job.attempt else None
        by_remote.setdefault(remote.name if remote else "", []).append(job)
    platform = plane.targets[name].platform
    for job in by_remote.pop("", []):
        await _recover(plane, name, job)
    for remote_name, unit in by_remote.items():
        found = await platform.get(remote_name)
        if any(job.stop for job in unit) and found is not None and not found.state.terminal:
            await platform.cancel(remote_name)
        await observed(plane, unit, found)
    return len(held)


async def _held(plane: ControlPlane, name: str) -> list[Job]:
    held: list[Job] = []
    query, cursor = queries.held_by(target_session(name)), None
    while True:
        page, cursor = await JOBS.find(plane.store, query.page(PAGE, cursor))
        held += (stored.item for stored in page)
        if cursor is None:
            return held


async def _recover(plane: ControlPlane, name: str, job: Job) -> None:
    """Finds what became of a submission that was cut short, by its label; else makes it now."""
    attempt, now = job.attempt, plane.clock.now()
    if attempt is None or now - attempt.claimed_at < SUBMITTING:
        return
    unit = await _claimed_with(plane, job)
    if unit[0].id != job.id:
        return
    platform = plane.targets[name].platform
    found = await platform.find(label_of(unit))
    for extra in found[1:]:
        await platform.cancel(extra.name)
    if found:
        await record(plane, name, unit, found[0])
    elif any(each.stop and each.stop.outcome is not Outcome.RELEASED for each in unit):
        await _never_ran(plane, unit)
    else:
        await submit(plane, name, unit)


async def _claimed_with(plane: ControlPlane, job: Job) -> Sequence[Job]:
    """The jobs of the group that were claimed in the same moment, in its order."""
    (stored,) = await JOBS.get_many(plane.store, [job.id])
    assert stored is not None
    claimed_at = job.attempt.claimed_at if job.attempt else None
    unit = [member.item for member in await load_group(plane, stored)]
    return [each for each in unit if each.attempt and each.attempt.claimed_at == claimed_at]


async def _never_ran(plane: ControlPlane, unit: Sequence[Job]) -> None:
    reason = Reason(code=ReasonCode.STOP_REQUESTED, message="stopped before it was submitted")
    now = plane.clock.now()
    for job in unit:
        with suppress(StaleFence):
            done = await change_job(
                plane, job.id, lambda j: lifecycle.lost(j, j.fence, reason, now)
            )
            await spread(plane, done.all)
