"""Why a job does not run yet: facts in, causes out, the most decisive first.

A message goes on from "the job waits because".
"""

from datetime import timedelta

from xmcloud.core.groups import whole
from xmcloud.core.lifecycle import UNCONFIRMED
from xmcloud.core.models import Job, JobState
from xmcloud.core.pending_facts import Facts, count, left_of, move_ahead, place_of, some, span
from xmcloud.core.pending_workers import at_workers
from xmcloud.core.protocol import Cause, CauseCode
from xmcloud.core.resources import accelerator


def causes(job: Job, facts: Facts) -> list[Cause]:
    """Empty once the job has started."""
    if job.state is JobState.DRAFT:
        remedy = f"Enqueue it: xmcloud enqueue {facts.reference}"
        return [Cause(code=CauseCode.DRAFT, message="nobody enqueued it", remedy=remedy)]
    if job.state is JobState.BUILDING:
        return [_building(job, facts)]
    if job.state is not JobState.QUEUED:
        return []
    where = _at_target(job, facts) if job.pool and facts.for_target else at_workers(job, facts)
    not_whole = _not_whole(job, facts)
    if not_whole and where and where.code in (CauseCode.WORKERS_BUSY, CauseCode.TARGET_FULL):
        where = None  # it may be its own group that takes the room
    found = [_paused(job, facts), _over_quota(facts), not_whole, _not_before(facts, where), where]
    known = [each for each in found if each is not None] or [_soon(job, facts)]
    overflow = _overflow(job, facts)
    return [*known, overflow] if overflow else known


def _building(job: Job, facts: Facts) -> Cause:
    build, message = facts.build, "its image is being built"
    if build is not None:
        message += f": build {build.id[:8]} is {build.state}"
        message += f", asked for {span(facts.now - build.created_at)} ago"
        message += f" ({line})" if (line := build.message.partition("\n")[0]) else ""
    remedy = f"See how it goes: xmcloud build show {(job.pending_build or '')[:8]}"
    return Cause(code=CauseCode.BUILDING, message=message, remedy=remedy)


def _paused(job: Job, facts: Facts) -> Cause | None:
    if not facts.paused:
        return None
    return Cause(
        code=CauseCode.QUEUE_PAUSED,
        message=f"queue {job.queue} is paused",
        remedy=f"Resume it: xmcloud queue resume {job.queue}",
    )


def _over_quota(facts: Facts) -> Cause | None:
    excess = facts.excess
    if excess is None:
        return None
    message = str(excess)
    if excess.kind == "running" and excess.more > 1:
        message += f", and its group needs {excess.more} at once"
    return Cause(code=CauseCode.OVER_QUOTA, message=message, remedy=excess.remedy)


def _not_whole(job: Job, facts: Facts) -> Cause | None:
    if not job.group or whole(facts.unit):
        return None
    others = [
        f"{each.name} is {each.state}{' (stopping)' if each.stop else ''}"
        for each in facts.unit
        if each.state not in (JobState.QUEUED, JobState.COMPLETED)
    ]
    message = f"its group starts as a whole, and {some(others)}"
    return Cause(code=CauseCode.GROUP_NOT_WHOLE, message=message)


def _not_before(facts: Facts, where: Cause | None) -> Cause | None:
    waiting = [j for j in facts.unit if j.waiting and j.waiting.not_before]
    if not waiting:
        return None
    last = max(waiting, key=lambda j: (j.waiting and j.waiting.not_before) or facts.now)
    until = last.waiting.not_before if last.waiting else None
    told = where is not None and where.code is CauseCode.TARGET_BLOCKED
    if until is None or until <= facts.now or told:
        return None
    message = f"it is tried again in {span(until - facts.now)}: {last.reason.message}"
    return Cause(code=CauseCode.NOT_BEFORE, message=message, until=until)


def _overflow(job: Job, facts: Facts) -> Cause | None:
    overflow, at = job.spec.overflow, job.waiting.overflow_at if job.waiting else None
    if overflow is None or at is None:
        return None
    when = f"in {span(at - facts.now)}" if at > facts.now else "now"
    message = f"it goes to {overflow.target} {when}, unless a worker takes it first"
    return Cause(code=CauseCode.OVERFLOWS, message=message, until=at)


def _soon(job: Job, facts: Facts) -> Cause:
    if facts.place and facts.place.place > 1:
        message = f"those ahead of it go first; {place_of(facts.place)}"
        return Cause(code=CauseCode.BEHIND_OTHERS, message=message, remedy=move_ahead(facts))
    due = job.waiting.permit_due_at if job.waiting else facts.now
    if facts.place is None:
        message = "others may be ahead of it; nothing else holds it up"
    elif due - facts.now <= UNCONFIRMED:
        message = "its permit is on the way: it should start any moment"
    else:
        message = "its turn has only just come: it should start any moment"
    return Cause(code=CauseCode.STARTING_SOON, message=message)


def _at_target(job: Job, facts: Facts) -> Cause | None:
    target, name, size = facts.target, job.pool, len(left_of(facts))
    if target is None:
        return Cause(
            code=CauseCode.NO_TARGET,
            message=f"this control plane has no target {name}",
            remedy="See those it has: xmcloud target list",
        )
    kinds = (accelerator(each.spec) for each in left_of(facts))
    kind = next((kind for kind in kinds if kind in target.blocks), None)
    if kind is not None:
        block = target.blocks[kind]
        message = f"{name} refuses {kind or 'jobs without accelerator'} for "
        message += f"{span(block.until - facts.now)} more: {block.message}"
        return Cause(code=CauseCode.TARGET_BLOCKED, message=message, until=block.until)
    if size > target.limit:
        message = f"its group has {count(size, 'job')}; {name} runs {target.limit} at a time"
        return Cause(code=CauseCode.GROUP_TOO_LARGE, message=message)
    if target.running + size > target.limit:
        message = f"{name} is at its limit: {target.running} of {target.limit} running"
        message += f", and its group needs {size} at once" if size > 1 else ""
        message += f"; {place_of(facts.place)}" if facts.place else ""
        return Cause(code=CauseCode.TARGET_FULL, message=message, remedy=move_ahead(facts))
    if target.submissions < 1:
        wait = timedelta(minutes=(1 - target.submissions) / target.per_minute)
        message = f"{name} takes {count(target.per_minute, 'submission')} a minute, the next "
        message += f"in {span(wait)}" + (f"; {place_of(facts.place)}" if facts.place else "")
        until = facts.now + wait
        return Cause(code=CauseCode.TARGET_PACED, message=message, until=until)
    return None
