"""From the queues to a platform: claims what waits for a target, and submits it.

A target's dispatches share one document, so that together they keep its limit and its pace. A
submission that was cut short is found again by its label.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.changing import commit_jobs, load_group, target_session
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.queues import ordered_queues
from xmcloud.core.control.quotas import Turn
from xmcloud.core.control.submissions import submit
from xmcloud.core.control.targets import require_target
from xmcloud.core.documents import JOBS, TARGETS, Stored
from xmcloud.core.errors import Contended
from xmcloud.core.groups import whole
from xmcloud.core.models import Job, JobState, TargetState
from xmcloud.core.ports import WRITES_LIMIT
from xmcloud.core.protocol import Targets, TargetStatus
from xmcloud.core.resources import accelerator

AT_ONCE = 20
"""Units that one round claims, and submissions under way at a time."""

LOOKED_AT = 100
"""Jobs of a queue that one round looks at."""


async def list_targets(plane: ControlPlane) -> Targets:
    """What the platforms of this control plane run and refuse."""
    return Targets(targets=[await _status(plane, name) for name in sorted(plane.targets)])


async def _status(plane: ControlPlane, name: str) -> TargetStatus:
    now = plane.clock.now()
    running, (_, state) = await asyncio.gather(
        plane.store.count(queries.held_by(target_session(name))), load_state(plane, name, now)
    )
    return TargetStatus(
        name=name, limit=plane.targets[name].limit, running=running, blocks=state.blocks
    )


async def dispatch(plane: ControlPlane, name: str, patience: timedelta = timedelta(0)) -> int:
    """Submits what waits for the target, as far as it may; how many jobs that were.

    Waits up to `patience` in all for its pace to allow more. Raises `NotFound`.
    """
    require_target(plane, name)
    total, deadline = 0, plane.clock.now() + patience
    while True:
        units, wait = await _claim(plane, name)
        await asyncio.gather(*(submit(plane, name, unit) for unit in units))
        total += sum(map(len, units))
        if units:
            continue
        if wait is None or plane.clock.now() + wait > deadline:
            if wait is not None:
                plane.alarm(f"dispatch/{name}", plane.clock.now() + wait)
            return total
        await plane.clock.sleep(wait.total_seconds())


async def _claim(plane: ControlPlane, name: str) -> tuple[list[list[Job]], timedelta | None]:
    """Units to submit now; without any, how long the pace holds back what waits, if it does."""
    target, session = plane.targets[name], target_session(name)
    for attempt in range(TRIES):
        now = plane.clock.now()
        stored, state = await load_state(plane, name, now)
        held = await plane.store.count(queries.held_by(session))
        turn = Turn(plane)
        units = await _choose(plane, name, state, target.limit - held, turn)
        if not units:
            return [], None
        paced = _in_one_commit(units[: min(AT_ONCE, int(state.submissions))])
        if not paced:
            return [], timedelta(minutes=(1 - state.submissions) / target.per_minute)
        left = state.evolve(submissions=state.submissions - len(paced))
        write = TARGETS.replace(stored, left) if stored else TARGETS.create(left)
        claims = [
            (s, lifecycle.claimed(s.item, name, session, now)) for unit in paced for s in unit
        ]
        passing = turn.passing({job.project for _, job in claims})
        done = await commit_jobs(plane, claims, [write, *passing])
        if done is not None:
            jobs = iter(done)
            return [[next(jobs).item for _ in unit] for unit in paced], None
        await backoff(attempt)
    raise Contended(f"Target {name}")


def _in_one_commit(units: Sequence[list[Stored[Job]]]) -> list[list[Stored[Job]]]:
    """The first of them, as many as fit beside the target's own write and a turnstile for each."""
    sizes = accumulate(len(unit) + 1 for unit in units)
    return [unit for unit, size in zip(units, sizes, strict=True) if size < WRITES_LIMIT]


async def load_state(
    plane: ControlPlane, name: str, now: datetime
) -> tuple[Stored[TargetState] | None, TargetState]:
    """The state of the target as of now: refilled, and without blocks that are over."""
    per_minute = plane.targets[name].per_minute
    burst = max(1.0, per_minute / 2)
    (stored,) = await TARGETS.get_many(plane.store, [name])
    if stored is None:
        return None, TargetState(name=name, submissions=burst, refilled_at=now)
    state = stored.item
    gained = (now - state.refilled_at) / timedelta(minutes=1) * per_minute
    return stored, state.evolve(
        submissions=min(burst, state.submissions + max(0.0, gained)),
        refilled_at=now,
        blocks={kind: block for kind, block in state.blocks.items() if block.until > now},
    )


async def _choose(
    plane: ControlPlane, name: str, state: TargetState, room: int, turn: Turn
) -> list[list[Stored[Job]]]:
    """Whole units for which there is room, by queue and position; blocked kinds are passed over.

    A group that needs more room than there is now keeps what comes after it waiting.
    """
    limit, chosen = plane.targets[name].limit, list[list[Stored[Job]]]()
    for queue in await ordered_queues(plane):
        if queue.paused:
            continue
        if room <= 0:
            break
        async for stored in _waiting(plane, queue.name, name, turn):
            unit = await _ready(plane, stored, state)
            jobs = [member.item for member in unit]
            if not unit or len(unit) > limit or await turn.excess(jobs) is not None:
                continue
            if len(unit) > room:
                return chosen
            turn.take(jobs)
            chosen.append(unit)
            room -= len(unit)
    return chosen


async def _waiting(
    plane: ControlPlane, queue: str, name: str, turn: Turn
) -> AsyncIterator[Stored[Job]]:
    """One job of each of the first units; if full projects hide the others', of theirs too."""
    query = queries.claimable(queue, name).page(LOOKED_AT, None)
    page, more = await JOBS.find(plane.store, query)
    first = _leaders(page)
    for stored in first:
        yield stored
    if more is None or not turn.full:
        return
    seen = {stored.item.members[0] for stored in first}
    for project in turn.others():
        query = queries.claimable_in(project, queue, name).page(LOOKED_AT, None)
        page, _ = await JOBS.find(plane.store, query)
        for stored in _leaders(page):
            if stored.item.members[0] not in seen:
                yield stored


def _leaders(page: Iterable[Stored[Job]]) -> list[Stored[Job]]:
    """One job of each unit."""
    units: dict[str, Stored[Job]] = {}
    for stored in page:
        units.setdefault(stored.item.members[0], stored)
    return list(units.values())


async def _ready(plane: ControlPlane, stored: Stored[Job], state: TargetState) -> list[Stored[Job]]:
    """What is left of the unit, if all of it may start now."""
    unit = await load_group(plane, stored)
    if not whole([member.item for member in unit]):
        return []
    left = [member for member in unit if member.item.state is JobState.QUEUED]
    now = plane.clock.now()
    for job in (member.item for member in left):
        later = job.waiting.not_before if job.waiting else None
        if accelerator(job.spec) in state.blocks or (later is not None and later > now):
            return []
    return left
