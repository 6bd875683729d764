"""What people do to jobs: one at a time, or all of an experiment."""

from collections.abc import Callable, Collection, Sequence

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.builds import abandon_builds, join_builds
from xmcloud.core.control.changing import (
    Decide,
    apply_jobs,
    change_job,
    change_unit,
    load_unit,
    spread,
)
from xmcloud.core.control.experiments import job_pages
from xmcloud.core.control.overflow import at_once
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import require_queues
from xmcloud.core.control.quotas import require_room
from xmcloud.core.control.secrets import check_secrets
from xmcloud.core.control.statistics import statistics_of
from xmcloud.core.documents import EXPERIMENTS, JOBS, Stored
from xmcloud.core.errors import IllegalTransition, InvalidInput, NotFound, XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT, Permission
from xmcloud.core.models import Experiment, Job, JobState, StopRequest
from xmcloud.core.names import ID_LENGTH
from xmcloud.core.ports import Document
from xmcloud.core.protocol import Act, Acted, EditJob, Enqueue, Skipped, Stop

ENQUEUED_FROM = (JobState.DRAFT, JobState.STOPPED, JobState.FAILED)


class AmbiguousId(XmcloudError):
    """Several ids begin with what was given."""

    slug, title, status = "ambiguous-id", "Ambiguous id", 409


async def resolve(plane: ControlPlane, collection: str, prefix: str) -> str:
    """The one id, of those that the caller may see, that begins with `prefix`.

    Raises `NotFound` and `AmbiguousId`. Of a whole id, whoever loads it checks.
    """
    kind = Experiment if collection == EXPERIMENTS.name else Job
    if not prefix.isalnum() or not prefix.isascii():
        raise NotFound(kind.__name__.lower(), prefix)
    if len(prefix) == ID_LENGTH:
        return prefix
    page = await plane.store.find(queries.by_prefix(collection, prefix).page(5, None))
    ids = [document.id for document in page.documents if _visible(plane, document)]
    if not ids:
        raise NotFound(kind.__name__.lower(), prefix)
    if len(ids) > 1:
        raise AmbiguousId(f"{prefix!r} begins {', '.join(ids)}.", "Give more characters.")
    return ids[0]


def _visible(plane: ControlPlane, document: Document) -> bool:
    return plane.caller.may(Permission.READ, str(document.data.get("project", DEFAULT_PROJECT)))


def _stop(plane: ControlPlane, request: Stop) -> Decide:
    asked = StopRequest(
        by=request.by, message=request.message, outcome=request.outcome, at=plane.clock.now()
    )
    return lambda job: lifecycle.stopped(job, asked)


def _reset(plane: ControlPlane, request: Act) -> Decide:
    return lambda job: lifecycle.reset(job, request.by, plane.clock.now())


def _dequeue(plane: ControlPlane, request: Act) -> Decide:
    return lambda job: lifecycle.dequeued(job, request.by, plane.clock.now())


def _enqueue(plane: ControlPlane, request: Enqueue, overflowed: Collection[str]) -> Decide:
    """In the order in which it is called, also within one instant."""
    last = 0

    def decide(job: Job) -> Job:
        nonlocal last
        now = plane.clock.now()
        last = max(last + 1, lifecycle.position_at(now))
        return lifecycle.enqueued(
            job,
            request.queue,
            last,
            request.by,
            now,
            overflowed=job.id in overflowed,
            trace=plane.trace,
        )

    return decide


async def stop_job(plane: ControlPlane, id: str, request: Stop) -> Job:
    """With its whole group."""
    changed = await change_unit(plane, id, _stop(plane, request))
    await _follow_up(plane, changed.all)
    return changed.job.item


async def reset_job(plane: ControlPlane, id: str, request: Act) -> Job:
    """With its whole group."""
    changed = await change_unit(plane, id, _reset(plane, request))
    await _forget_logs(plane, changed.all)
    return changed.job.item


async def dequeue_job(plane: ControlPlane, id: str, request: Act) -> Job:
    """With its whole group."""
    changed = await change_unit(plane, id, _dequeue(plane, request))
    await abandon_builds(plane, changed.all)
    return changed.job.item


async def enqueue_job(plane: ControlPlane, id: str, request: Enqueue) -> Job:
    """With its whole group."""
    await require_queues(plane, [request.queue])
    unit = [stored.item for stored in await load_unit(plane, id)]
    await require_room(plane, [job for job in unit if job.state in ENQUEUED_FROM])
    decide = _enqueue(plane, request, await at_once(plane, [unit]))
    changed = await change_unit(plane, id, decide, check=_has_ended)
    newest = {s.item.id: s.item for s in await _queued(plane, changed.all)}
    return newest.get(id, changed.job.item)


async def edit_job(plane: ControlPlane, id: str, request: EditJob) -> Job:
    """Raises `InvalidInput` for what would set the job apart from its group.

    Raises as `check_secrets` too.
    """
    if request.spec is not None and request.spec.secrets:
        project = (await JOBS.get(plane.store, id)).item.project
        await check_secrets(plane, project, [request.spec])

    def decide(job: Job) -> Job:
        if job.group:
            _stays_in_its_group(job, request)
        return lifecycle.edited(job, plane.clock.now(), spec=request.spec, name=request.name)

    return (await change_job(plane, id, decide)).job.item


def _stays_in_its_group(job: Job, request: EditJob) -> None:
    if request.name not in (None, job.name):
        raise InvalidInput("name", request.name, f"{job.name!r}, as its group knows it")
    new = request.spec or job.spec
    if new.pool != job.spec.pool:
        raise InvalidInput("spec.pool", new.pool, f"{job.spec.pool!r}, that of its group")
    if new.overflow != job.spec.overflow:
        raise InvalidInput("spec.overflow", new.overflow, "the overflow of its group")


async def stop_all(plane: ControlPlane, experiment: str, request: Stop) -> Acted:
    acted, stored = await _act_on_all(plane, experiment, _stop(plane, request))
    await _follow_up(plane, stored)
    return acted


async def reset_all(plane: ControlPlane, experiment: str, request: Act) -> Acted:
    acted, stored = await _act_on_all(plane, experiment, _reset(plane, request))
    await _forget_logs(plane, stored)
    return acted


async def dequeue_all(plane: ControlPlane, experiment: str, request: Act) -> Acted:
    acted, stored = await _act_on_all(plane, experiment, _dequeue(plane, request))
    await abandon_builds(plane, stored)
    return acted


async def enqueue_all(plane: ControlPlane, experiment: str, request: Enqueue) -> Acted:
    await require_queues(plane, [request.queue])
    units: dict[int, list[Job]] = {}
    more: list[Job] = []
    async for page in job_pages(plane, experiment):
        more += (stored.item for stored in page if stored.item.state in ENQUEUED_FROM)
        for job in (stored.item for stored in page if stored.item.spec.overflow):
            units.setdefault(job.unit, []).append(job)
    await require_room(plane, more)
    decide = _enqueue(plane, request, await at_once(plane, list(units.values())))
    acted, stored = await _act_on_all(plane, experiment, decide, check=_has_ended)
    newest = {s.item.id: s.item for s in await _queued(plane, stored)}
    return acted.evolve(jobs=[newest.get(job.id, job) for job in acted.jobs])


def _has_ended(unit: list[Job]) -> None:
    """A job that still stops would take the rest out of the queue again. Raises for it."""
    for job in unit:
        if job.state.active:
            raise IllegalTransition("enqueue", job.full_name, job.state, ENQUEUED_FROM)


async def _act_on_all(
    plane: ControlPlane,
    experiment: str,
    decide: Decide,
    check: Callable[[list[Job]], None] | None = None,
) -> tuple[Acted, list[Stored[Job]]]:
    """The transition for each job that is in a state for it."""
    await EXPERIMENTS.get(plane.store, experiment)
    done: dict[str, Stored[Job]] = {}
    skipped: list[Skipped] = []
    async for page in job_pages(plane, experiment):
        changes: list[tuple[Stored[Job], Job]] = []
        later: dict[str, str] = {}
        for stored in (each for each in page if each.item.id not in done):
            job = stored.item
            try:
                changed = decide(job)
            except IllegalTransition as error:
                skipped.append(Skipped(job_id=job.id, why=error.detail))
                continue
            if job.group:
                later.setdefault(job.members[0], job.id)
            else:
                changes.append((stored, changed))
        for (stored, _), result in zip(changes, await apply_jobs(plane, changes), strict=True):
            if result is None:
                later[stored.item.id] = stored.item.id
            else:
                done[result.item.id] = result
        for id in later.values():
            try:
                found = (await change_unit(plane, id, decide, check)).all
            except IllegalTransition as error:
                skipped.append(Skipped(job_id=id, why=error.detail))
            else:
                done |= {stored.item.id: stored for stored in found}
    return Acted(jobs=[stored.item for stored in done.values()], skipped=skipped), [*done.values()]


async def _follow_up(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> None:
    await spread(plane, jobs)
    await abandon_builds(plane, jobs)


async def _queued(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """What was enqueued, after its permits went out; what waits for a build that ended goes on."""
    return await join_builds(plane, await spread(plane, jobs))


async def _forget_logs(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> None:
    for stored in jobs:
        await plane.blobs.delete(f"logs/{stored.item.id}/")
        await plane.blobs.delete(statistics_of(stored.item.id))
