"""The ways to change jobs: alone, with their group, or many at once; and what follows."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from xmcloud.core.concurrency import for_each
from xmcloud.core.control.job_lines import log_changes
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.quotas import entries, wake
from xmcloud.core.documents import JOBS, Stored
from xmcloud.core.errors import Contended, IllegalTransition, Unavailable
from xmcloud.core.groups import settled
from xmcloud.core.lifecycle import UNCONFIRMED, permit_confirmed
from xmcloud.core.models import Job, JobState
from xmcloud.core.names import derived_id
from xmcloud.core.platforms import Platform
from xmcloud.core.ports import WRITES_LIMIT, Message, PreconditionFailed, Version, Write
from xmcloud.core.topics import CONTROL_TOPIC, NEWS, control_audience, queue_topic

Decide = Callable[[Job], Job]
DecideAll = Callable[[list[Job]], list[Job]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The job that was meant, every job that changed with it, and all of its group."""

    job: Stored[Job]
    all: list[Stored[Job]]
    unit: list[Stored[Job]]


async def change_job(plane: ControlPlane, id: str, decide: Decide) -> Changed:
    """Applies a transition to a job, and what it means for its group, all or nothing.

    Again on the newest state when somebody was faster. Raises whatever `decide` raises,
    `NotFound` and `Contended`.
    """
    return await change_group(
        plane, id, lambda jobs: [decide(job) if job.id == id else job for job in jobs]
    )


async def change_unit(
    plane: ControlPlane, id: str, decide: Decide, check: Callable[[list[Job]], None] | None = None
) -> Changed:
    """Applies a transition to all jobs of a job's group that are in a state for it.

    Raises as `change_job`, what `check` raises of the group, and `IllegalTransition` when no job
    is in a state for it.
    """

    def decide_all(jobs: list[Job]) -> list[Job]:
        if check is not None:
            check(jobs)
        decided, refusal, done = [], None, False
        for job in jobs:
            try:
                decided.append(decide(job))
                done = True
            except IllegalTransition as error:
                refusal = error if refusal is None or job.id == id else refusal
                decided.append(job)
        if refusal is not None and not done:
            raise refusal
        return decided

    return await change_group(plane, id, decide_all)


async def change_group(plane: ControlPlane, id: str, decide: DecideAll) -> Changed:
    """Applies a transition to a job with its group, in the group's order. As `change_job`."""
    for attempt in range(TRIES):
        unit = await load_unit(plane, id)
        decided = settled(decide([stored.item for stored in unit]), plane.clock.now())
        changes = [(s, job) for s, job in zip(unit, decided, strict=True) if job != s.item]
        done = await commit_jobs(plane, changes)
        if done is None:
            await backoff(attempt)
            continue
        newest = {stored.item.id: stored for stored in (*unit, *done)}
        return Changed(newest[id], done, [newest[stored.item.id] for stored in unit])
    raise Contended(f"Job {id}")


async def load_unit(plane: ControlPlane, id: str) -> list[Stored[Job]]:
    """The job and those of its group, in the group's order. Raises `NotFound`."""
    stored = await JOBS.get(plane.store, id)
    return await load_group(plane, stored)


async def load_group(plane: ControlPlane, stored: Stored[Job]) -> list[Stored[Job]]:
    """A job that was read, with the rest of its group, in the group's order."""
    if not stored.item.group:
        return [stored]
    found = await JOBS.get_many(plane.store, stored.item.members)
    return [each for each in found if each is not None]


async def commit_jobs(
    plane: ControlPlane, changes: Sequence[tuple[Stored[Job], Job]], writes: Sequence[Write] = ()
) -> list[Stored[Job]] | None:
    """All the changes, and other writes, or none: then None."""
    if not changes and not writes:
        return []
    own = [JOBS.replace(stored, job) for stored, job in changes]
    used = [entry for stored, job in changes for entry in entries(stored.item, job)]
    try:
        versions = await plane.store.commit([*own, *writes, *used])
    except PreconditionFailed:
        return None
    for _, job in changes:
        plane.announce(job)
    log_changes((stored.item, job) for stored, job in changes)
    await wake(plane, ((stored.item, job) for stored, job in changes))
    return [JOBS.written(job, v) for (_, job), v in zip(changes, versions, strict=False)]


async def apply_jobs(
    plane: ControlPlane, changes: Sequence[tuple[Stored[Job], Job]]
) -> list[Stored[Job] | None]:
    """Applies each change that still holds; None in place of one that lost a race.

    Not for jobs of a group.
    """
    versions: dict[int, Version | None] = {}
    alone: list[tuple[int, list[Write]]] = []
    together: list[tuple[int, Write]] = []
    for place, (stored, job) in enumerate(changes):
        write, used = JOBS.replace(stored, job), entries(stored.item, job)
        if used:
            alone.append((place, [write, *used]))
        else:
            together.append((place, write))

    async def commit(one: tuple[int, list[Write]]) -> None:
        versions[one[0]] = None
        with suppress(PreconditionFailed):
            versions[one[0]] = (await plane.store.commit(one[1]))[0]

    await for_each(alone, commit)
    for start in range(0, len(together), WRITES_LIMIT):
        part = together[start : start + WRITES_LIMIT]
        made = await plane.store.apply([write for _, write in part])
        versions |= zip((place for place, _ in part), made, strict=True)
    return await _applied(plane, changes, [versions[place] for place in range(len(changes))])


async def _applied(
    plane: ControlPlane,
    changes: Sequence[tuple[Stored[Job], Job]],
    versions: Sequence[Version | None],
) -> list[Stored[Job] | None]:
    applied: list[Stored[Job] | None] = []
    done: list[tuple[Job, Job]] = []
    for (stored, job), version in zip(changes, versions, strict=True):
        applied.append(None if version is None else JOBS.written(job, version))
        if version is not None:
            plane.announce(job)
            done.append((stored.item, job))
    log_changes(done)
    await wake(plane, done)
    return applied


async def spread(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """Tells whom it concerns that these jobs changed: who may claim or who has to stop them.

    Nothing is lost when this is cut short: the sweep does all of it again.
    """
    stopping = [stored.item for stored in jobs if stored.item.stop is not None]
    if stopping:
        await tell_holders(plane, stopping)
    if any(stored.item.auxiliary and not stored.item.state.terminal for stored in jobs):
        plane.alarm("auxiliary", plane.clock.now())
    return await publish_permits(plane, jobs)


async def publish_permits(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """Publishes a permit for each queued job and notes that the broker has it.

    A broker that does not answer is no failure of the request: the sweep publishes again. The
    note is skipped for jobs that were claimed meanwhile.
    """
    queued = [stored for stored in jobs if stored.item.state is JobState.QUEUED]
    now = plane.clock.now()
    by_topic: dict[str, list[Message]] = {}
    for job in (stored.item for stored in queued):
        assert job.waiting is not None
        if job.waiting.not_before is None or job.waiting.not_before <= now:
            by_topic.setdefault(queue_topic(job.queue), []).append(Message(job.pool, job.id))
        else:
            plane.alarm(f"permit/{job.id}", job.waiting.not_before)
        if job.waiting.overflow_at is not None:
            plane.alarm(f"overflow/{job.id}", job.waiting.overflow_at)
    try:
        await asyncio.gather(*(plane.queue.publish(t, sent) for t, sent in by_topic.items()))
    except Unavailable:
        plane.alarm("unconfirmed permits", now + UNCONFIRMED)
        return list(jobs)
    if not queued:
        return list(jobs)
    # Whoever waits for the permits in this process goes first.
    await asyncio.sleep(0)
    confirmed = await apply_jobs(plane, [(s, permit_confirmed(s.item, now)) for s in queued])
    newest = {s.item.id: s for s in confirmed if s is not None}
    return [newest.get(stored.item.id, stored) for stored in jobs]


def target_session(name: str) -> str:
    """What stands in a target's attempts where a worker's have its session."""
    return derived_id("target", name)


async def tell_holders(plane: ControlPlane, jobs: Sequence[Job]) -> None:
    """Workers look which of their attempts are to be stopped; platforms are asked to cancel."""
    by_session = {target_session(name): target.platform for name, target in plane.targets.items()}
    sessions: set[str] = set()
    remotes: dict[str, Platform] = {}
    for attempt in (job.attempt for job in jobs if job.attempt is not None):
        platform = by_session.get(attempt.session)
        if platform is None:
            sessions.add(attempt.session)
        elif attempt.remote is not None:
            remotes[attempt.remote.name] = platform

    async def cancel(remote: tuple[str, Platform]) -> None:
        with suppress(Unavailable):
            await remote[1].cancel(remote[0])

    await for_each(remotes.items(), cancel)
    await tell_sessions(plane, sessions)


async def tell_sessions(plane: ControlPlane, sessions: set[str]) -> None:
    """These workers ask at once what is new for them.

    A broker that does not answer is no failure of the request: they ask with each heartbeat too.
    """
    messages = [Message(control_audience(session), NEWS) for session in sorted(sessions)]
    if messages:
        with suppress(Unavailable):
            await plane.queue.publish(CONTROL_TOPIC, messages)
