"""Why no worker takes a job, or a group."""

from collections.abc import Sequence

from xmcloud.core.models import Job, Wanted
from xmcloud.core.pending_facts import (
    Facts,
    Pool,
    Worker,
    amount_of,
    count,
    fits,
    left_of,
    move_ahead,
    place_of,
    serving_workers,
    some,
    span,
    start_worker,
)
from xmcloud.core.protocol import Cause, CauseCode
from xmcloud.core.version import VERSION


def at_workers(job: Job, facts: Facts) -> Cause | None:
    pool = f"of pool {job.pool}" if job.pool else "of any pool"
    if not facts.workers:
        message = f"no worker {pool} is connected" if job.pool else "no worker is connected"
        remedy = f"Start one: {start_worker(job)}"
        return Cause(code=CauseCode.NO_WORKER, message=message, remedy=remedy)
    serving = serving_workers(job, facts.workers)
    if not serving:
        message = f"no worker {pool} serves queue {job.queue}"
        remedy = f"Start one that does: {start_worker(job, job.queue)}"
        return Cause(code=CauseCode.QUEUE_NOT_SERVED, message=message, remedy=remedy)
    serving = [w for w in serving if all(w.session.understands(j.spec) for j in left_of(facts))]
    if not serving:
        message = f"it has secrets, and the workers {pool} are too old to be told them"
        remedy = f"Update them: pip install xmcloud=={VERSION}"
        return Cause(code=CauseCode.NO_WORKER, message=message, remedy=remedy)
    for each in left_of(facts):
        if not any(fits(each, worker.session.resources) for worker in serving):
            return _too_large(job, each, serving, pool)
    taking = [worker for worker in serving if not worker.session.takes_nothing]
    if not taking:
        return _closed(serving, pool)
    if len(left_of(facts)) > 1:
        return _group(job, facts, pool) or _busy_for_group(facts, taking)
    able = [w for w in taking if fits(job, w.session.resources)]
    return _busy(job, facts, able) if able else _closed(serving, pool)


def _closed(serving: Sequence[Worker], pool: str) -> Cause:
    session = serving[0].session
    if len(serving) == 1:
        message = f"worker {session.worker} takes no jobs: {session.takes_nothing}"
    else:
        why = some(sorted({w.session.takes_nothing or "too small" for w in serving}))
        message = f"the {len(serving)} workers {pool} that could run it take no jobs: {why}"
    drained = next((w.session for w in serving if w.session.wanted is Wanted.DRAIN), None)
    remedy = f"Let it take jobs again: xmcloud worker resume {drained.worker}" if drained else ""
    return Cause(code=CauseCode.WORKERS_CLOSED, message=message, remedy=remedy)


def _too_large(job: Job, each: Job, serving: Sequence[Worker], pool: str) -> Cause:
    asks = f"{each.name} of its group asks" if each.id != job.id else "it asks"
    for name, amount in each.spec.resources.items():
        most = max(worker.session.resources.get(name, 0.0) for worker in serving)
        if most < amount:
            has = amount_of(name, most) if most else f"no {name}"
            message = f"{asks} for {amount_of(name, amount)}; the largest worker {pool} has {has}"
            break
    else:
        wanted = " and ".join(amount_of(*item) for item in each.spec.resources.items())
        message = f"{asks} for {wanted}; no single worker {pool} has all of it"
    remedy = f"Start a worker on a machine that has it: {start_worker(job, job.queue)}"
    return Cause(code=CauseCode.TOO_LARGE, message=message, remedy=remedy)


def _group(job: Job, facts: Facts, pool: str) -> Cause | None:
    """What keeps the group from gathering, in every pool that could hold it."""
    able = [each for each in facts.pools if each.holds_group]
    if not able:
        slots = sum(worker.session.slots for worker in facts.workers)
        size = len(left_of(facts))
        lacking = "together have no room for all of it at once" if size <= slots else ""
        have = lacking or f"have {count(slots, 'slot')} in all"
        message = f"its group of {size} starts as a whole; the workers {pool} {have}"
        remedy = f"Start more workers: {start_worker(job, job.queue)}"
        return Cause(code=CauseCode.GROUP_TOO_LARGE, message=message, remedy=remedy)
    found = [_gathering(job, facts, each) for each in able]
    return None if None in found else found[0]


def _gathering(job: Job, facts: Facts, pool: Pool) -> Cause | None:
    leader, now = job.members[0], facts.now
    current = pool.gathering
    if current is not None and current.deadline > now:
        left = span(current.deadline - now)
        if current.leader == leader:
            there = {worker.session.id for worker in facts.workers}
            held = sum(place.session in there for place in current.places.values())
            places = f"{held} of {len(left_of(facts))} places"
            message = f"its group has {places}, kept for it for {left} more"
            code = CauseCode.GROUP_GATHERING
        else:
            message = f"another group gathers its places first, for {left} more at most"
            code = CauseCode.OTHER_GROUP
        return Cause(code=code, message=message, until=current.deadline)
    vain = (pool.vain or {}).get(leader)
    if vain is None or vain.rests_until <= now:
        return None
    times = "once" if vain.count == 1 else f"{vain.count} times"
    message = f"its group gathered {times} in vain and lets others go first, "
    message += f"for {span(vain.rests_until - now)} more"
    return Cause(code=CauseCode.GROUP_RESTING, message=message, until=vain.rests_until)


def _busy_for_group(facts: Facts, serving: Sequence[Worker]) -> Cause | None:
    size, free = len(left_of(facts)), sum(max(0, w.room.slots) for w in serving if w.room)
    if free >= size:
        return None
    message = f"its group needs {size} slots at once, and {free} "
    message += f"{'is' if free == 1 else 'are'} free"
    message += f"; {place_of(facts.place)}" if facts.place else ""
    return Cause(code=CauseCode.WORKERS_BUSY, message=message, remedy=move_ahead(facts))


def _busy(job: Job, facts: Facts, able: Sequence[Worker]) -> Cause | None:
    """`able` are those whose machine has what the job asks for."""
    seen = [(worker, worker.room) for worker in able if worker.room is not None]
    if any(room.slots > 0 and fits(job, room.resources) for _, room in seen):
        return None
    name = f"worker {able[0].session.worker}"
    if any(room.slots > 0 for _, room in seen):
        wanted = " and ".join(amount_of(*item) for item in job.spec.resources.items())
        who = name if len(able) == 1 else "the workers that have it"
        message = f"other jobs use {wanted} of {who}"
    else:
        slots = sum(worker.session.slots for worker, _ in seen)
        who = name if len(able) == 1 else f"the {len(seen)} workers that could run it"
        message = f"all {slots} slots of {who} are taken" if slots > 1 else f"{who} is busy"
    message += f"; {place_of(facts.place)}" if facts.place else ""
    return Cause(code=CauseCode.WORKERS_BUSY, message=message, remedy=move_ahead(facts))
