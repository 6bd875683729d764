"""What platforms do with the jobs that were submitted: told by events, and asked by the sweep."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from xmcloud.core import lifecycle, queries
from xmcloud.core.concurrency import for_each
from xmcloud.core.control.changing import load_group, target_session
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.submissions import (
    SUBMITTING,
    change_attempts,
    label_of,
    observed,
    record,
    submit,
)
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import Unavailable
from xmcloud.core.models import Job, Reason, ReasonCode

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

    async def ask(remote: str) -> None:
        unit, found = by_remote[remote], await platform.get(remote)
        if any(job.stop for job in unit) and found is not None and not found.state.terminal:
            await platform.cancel(remote)
        await observed(plane, unit, found)

    await for_each(by_remote, ask)
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
    claimed = await _claimed_with(plane, attempt.claimed_at, job)
    unit = [each for each in claimed if each.attempt]
    if not unit or unit[0].id != job.id:
        return
    platform = plane.targets[name].platform
    found = await platform.find(label_of(claimed))
    for extra in found[1:]:
        await platform.cancel(extra.name)
    if found:
        await record(plane, name, unit, found[0])
    elif any(each.stop for each in unit):
        await _never_ran(plane, unit)
    elif len(unit) < len(claimed):
        await observed(plane, unit, None)
    else:
        await submit(plane, name, unit)


async def _claimed_with(plane: ControlPlane, claimed_at: datetime, job: Job) -> Sequence[Job]:
    """The jobs of the group that were claimed in that moment, in its order; some may have ended."""
    (stored,) = await JOBS.get_many(plane.store, [job.id])
    assert stored is not None
    unit = [member.item for member in await load_group(plane, stored)]
    return [j for j in unit if j.attempts and j.attempts[-1].claimed_at == claimed_at]


async def _never_ran(plane: ControlPlane, unit: Sequence[Job]) -> None:
    reason = Reason(code=ReasonCode.STOP_REQUESTED, message="stopped before it was submitted")
    now = plane.clock.now()
    await change_attempts(plane, unit, lambda job: lifecycle.lost(job, job.fence, reason, now))
