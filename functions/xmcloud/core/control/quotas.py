"""Keeps to the quotas: when jobs are put into queues, and when they are claimed.

In a control plane without quotas this reads the projects every few seconds, and nothing else.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xmcloud.core import queries
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.quota_cache import REMEMBERED
from xmcloud.core.documents import JOBS, TURNSTILES, USAGE, Stored
from xmcloud.core.errors import Unavailable
from xmcloud.core.identity import DEFAULT_PROJECT, Project, Quota
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import Message, Write
from xmcloud.core.quotas import Excess, Turnstile, Whose, limits_running, quotas_of
from xmcloud.core.topics import queue_topic
from xmcloud.core.usage import gpu_seconds, gpus_of, ledger, month_of

PAGE = 400

WOKEN = 100
"""Waiting jobs of a project that are looked at for who is to be told that one has ended."""

RUNNING = (JobState.STARTING, JobState.RUNNING)
WAITING = (JobState.QUEUED, JobState.BUILDING)


async def projects(plane: ControlPlane) -> Mapping[str, Project]:
    """As the process knows them."""
    return await plane.quotas.projects(plane.store, plane.clock.now())


async def count(plane: ControlPlane, whose: Whose, states: Iterable[JobState]) -> int:
    """Jobs in those states now."""
    asked = (queries.active_in(whose.project, state, whose.person) for state in states)
    return sum(await asyncio.gather(*map(plane.store.count, asked)))


async def gpu_hours(plane: ControlPlane, whose: Whose, month: str) -> float:
    """What attempts used that ended in the month, and in this one what others use so far."""
    project, person = whose.project, whose.person
    used = queries.usage_by(project, month, person) if person else queries.usage_in(project, month)
    seconds = await plane.store.total(used, "gpu_seconds")
    if month == month_of(plane.clock.now()):
        seconds += await _under_way(plane, whose)
    return max(0.0, seconds / 3600)


async def _under_way(plane: ControlPlane, whose: Whose) -> float:
    query, cursor = queries.holding_gpus(whose.project, whose.person), None
    now, seconds = plane.clock.now(), 0.0
    while True:
        page, cursor = await JOBS.find(plane.store, query.page(PAGE, cursor))
        seconds += sum(gpu_seconds(s.item, s.item.attempt, now) for s in page if s.item.attempt)
        if cursor is None:
            return seconds


async def require_room(plane: ControlPlane, jobs: Sequence[Job]) -> None:
    """For jobs of one experiment that are to wait in queues. Raises `OverQuota`.

    Two requests at the same moment may both be let in.
    """
    if not jobs:
        return
    with_gpus = sum(1 for job in jobs if gpus_of(job.spec))
    await require_room_for(plane, jobs[0].project, jobs[0].creator, len(jobs), with_gpus)


async def require_room_for(
    plane: ControlPlane, name: str, person: str, more: int, with_gpus: int
) -> None:
    """As `require_room`, for so many jobs, some of them with GPUs."""
    project = (await projects(plane)).get(name)
    if project is None or not more:
        return
    for whose, quota in quotas_of(project, person):
        if quota.queued is not None:
            there = await count(plane, whose, WAITING)
            if there + more > quota.queued:
                raise Excess(whose, "queued", quota.queued, there, more).refusal()
        excess = await _out_of_hours(plane, whose, quota, with_gpus)
        if excess is not None:
            raise excess.refusal()


async def _out_of_hours(
    plane: ControlPlane, whose: Whose, quota: Quota, with_gpus: int
) -> Excess | None:
    if quota.gpu_hours is None or not with_gpus:
        return None
    month = month_of(plane.clock.now())
    used = await gpu_hours(plane, whose, month)
    if used < quota.gpu_hours:
        return None
    return Excess(whose, "gpu_hours", quota.gpu_hours, used, with_gpus, month)


@dataclass(slots=True)
class Turn:
    """What one claim may still take in each project.

    It is good for one commit of what it let through in a project, together with `passing`.
    """

    plane: ControlPlane
    full: set[str] = field(default_factory=set)
    """Projects whose own quotas let nothing more through."""
    _projects: Mapping[str, Project] | None = None
    _running: dict[Whose, int] = field(default_factory=dict)
    _hours: dict[Whose, Excess | None] = field(default_factory=dict)
    _stiles: dict[str, Stored[Turnstile] | None] = field(default_factory=dict)

    async def excess(self, jobs: Sequence[Job]) -> Excess | None:
        """Why those jobs, of one unit, may not start together now; None if they may."""
        first = jobs[0]
        if self._projects is None:
            self._projects = await projects(self.plane)
        project = self._projects.get(first.project)
        if project is None:
            return None
        with_gpus = sum(1 for job in jobs if gpus_of(job.spec))
        for whose, quota in quotas_of(project, first.creator):
            found = await self._excess(project, whose, quota, len(jobs), with_gpus)
            if found is not None:
                if not whose.person:
                    self.full.add(project.name)
                return found
        return None

    async def _excess(
        self, project: Project, whose: Whose, quota: Quota, more: int, with_gpus: int
    ) -> Excess | None:
        if quota.running is not None:
            await self._approach(project.name)
            if whose not in self._running:
                self._running[whose] = await count(self.plane, whose, RUNNING)
            running = self._running[whose]
            if running + more > quota.running:
                return Excess(whose, "running", quota.running, running, more)
        if with_gpus and whose not in self._hours:
            self._hours[whose] = await _out_of_hours(self.plane, whose, quota, with_gpus)
        return self._hours[whose] if with_gpus else None

    async def _approach(self, project: str) -> None:
        """Ahead of any counting, so that no claim in between goes unnoticed."""
        if project not in self._stiles:
            (self._stiles[project],) = await TURNSTILES.get_many(self.plane.store, [project])

    def take(self, jobs: Sequence[Job]) -> None:
        """They were let through, and count from now on."""
        for whose in (Whose(jobs[0].project), Whose(jobs[0].project, jobs[0].creator)):
            if whose in self._running:
                self._running[whose] += len(jobs)

    def passing(self, names: Collection[str]) -> list[Write]:
        """What is to be committed with the claims of jobs of those projects."""
        writes = []
        for name in sorted(self._stiles.keys() & set(names)):
            stored = self._stiles[name]
            after = Turnstile(project=name, passed=stored.item.passed + 1 if stored else 1)
            writes.append(TURNSTILES.replace(stored, after) if stored else TURNSTILES.create(after))
        return writes

    async def passed(self, name: str) -> None:
        """What was let through was claimed; the rest counts on, unless others came between."""
        if name not in self._stiles:
            return
        before = self._stiles[name]
        (after,) = await TURNSTILES.get_many(self.plane.store, [name])
        if after is not None and after.item.passed == (before.item.passed if before else 0) + 1:
            self._stiles[name] = after

    def others(self) -> list[str]:
        """Projects that are not full."""
        return sorted({*(self._projects or ()), DEFAULT_PROJECT} - self.full)


def entries(before: Job, after: Job) -> list[Write]:
    """What goes into the ledger together with that change."""
    return [USAGE.create(entry) for entry in ledger(before, after)]


async def wake(plane: ControlPlane, changes: Iterable[tuple[Job, Job]]) -> None:
    """Workers look at what waits in projects in which a job that counted has ended.

    Whoever passed over the next one has given its permit back, or waits for another.
    """
    ended = {
        before.project for before, after in changes if before.state.active > after.state.active
    }
    if not ended:
        return
    known = await plane.quotas.projects(plane.store, plane.clock.now(), REMEMBERED)
    for project in sorted(ended):
        if project in known and limits_running(known[project]):
            await wake_project(plane, project)


async def wake_project(plane: ControlPlane, name: str) -> None:
    """A permit for each queue and pool in which something of the project waits."""
    page, _ = await JOBS.find(plane.store, queries.waiting_in(name).page(WOKEN, None))
    lines: dict[tuple[str, str], str] = {}
    for job in (stored.item for stored in page):
        lines.setdefault((job.queue, job.pool), job.id)
    with suppress(Unavailable):
        for (queue, pool), id in lines.items():
            await plane.queue.publish(queue_topic(queue), [Message(pool, id)])
