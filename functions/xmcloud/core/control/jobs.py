"""What people do to jobs: one at a time, or all of an experiment."""

from collections.abc import Callable, Sequence

from xmcloud.core import lifecycle, queries
from xmcloud.core.control.experiments import job_pages
from xmcloud.core.control.plane import (
    ControlPlane,
    apply_jobs,
    change_job,
    publish_permits,
)
from xmcloud.core.control.queues import require_queues
from xmcloud.core.documents import EXPERIMENTS, Stored
from xmcloud.core.errors import IllegalTransition, NotFound, XmcloudError
from xmcloud.core.models import Experiment, Job, StopRequest
from xmcloud.core.names import ID_LENGTH
from xmcloud.core.ports import Message
from xmcloud.core.protocol import Act, Acted, EditJob, Enqueue, Skipped, Stop
from xmcloud.core.topics import CONTROL_TOPIC, STOP, control_audience

Decide = Callable[[Job], Job]


class AmbiguousId(XmcloudError):
    """Several ids begin with what was given."""

    slug, title, status = "ambiguous-id", "Ambiguous id", 409


async def resolve(plane: ControlPlane, collection: str, prefix: str) -> str:
    """The one id that begins with `prefix`. Raises `NotFound` and `AmbiguousId`."""
    kind = Experiment if collection == EXPERIMENTS.name else Job
    if not prefix.isalnum() or not prefix.isascii():
        raise NotFound(kind.__name__.lower(), prefix)
    if len(prefix) == ID_LENGTH:
        return prefix
    page = await plane.store.find(queries.by_prefix(collection, prefix).page(5, None))
    ids = [document.id for document in page.documents]
    if not ids:
        raise NotFound(kind.__name__.lower(), prefix)
    if len(ids) > 1:
        raise AmbiguousId(f"{prefix!r} begins {', '.join(ids)}.", "Give more characters.")
    return ids[0]


def _stop(plane: ControlPlane, request: Stop) -> Decide:
    asked = StopRequest(
        by=request.by, message=request.message, outcome=request.outcome, at=plane.clock.now()
    )
    return lambda job: lifecycle.stopped(job, asked)


def _reset(plane: ControlPlane, request: Act) -> Decide:
    return lambda job: lifecycle.reset(job, request.by, plane.clock.now())


def _dequeue(plane: ControlPlane, request: Act) -> Decide:
    return lambda job: lifecycle.dequeued(job, request.by, plane.clock.now())


def _enqueue(plane: ControlPlane, request: Enqueue) -> Decide:
    """In the order in which it is called, also within one instant."""
    last = 0

    def decide(job: Job) -> Job:
        nonlocal last
        now = plane.clock.now()
        last = max(last + 1, lifecycle.position_at(now))
        return lifecycle.enqueued(job, request.queue, last, request.by, now)

    return decide


async def stop_job(plane: ControlPlane, id: str, request: Stop) -> Job:
    stored = await change_job(plane, id, _stop(plane, request))
    await _tell_workers(plane, [stored])
    return stored.item


async def reset_job(plane: ControlPlane, id: str, request: Act) -> Job:
    stored = await change_job(plane, id, _reset(plane, request))
    await plane.blobs.delete(f"logs/{id}/")
    return stored.item


async def dequeue_job(plane: ControlPlane, id: str, request: Act) -> Job:
    return (await change_job(plane, id, _dequeue(plane, request))).item


async def enqueue_job(plane: ControlPlane, id: str, request: Enqueue) -> Job:
    await require_queues(plane, [request.queue])
    stored = await change_job(plane, id, _enqueue(plane, request))
    (published,) = await publish_permits(plane, [stored])
    return published.item


async def edit_job(plane: ControlPlane, id: str, request: EditJob) -> Job:
    now = plane.clock.now()
    return (
        await change_job(
            plane,
            id,
            lambda job: lifecycle.edited(job, now, spec=request.spec, name=request.name),
        )
    ).item


async def stop_all(plane: ControlPlane, experiment: str, request: Stop) -> Acted:
    acted, stored = await _act_on_all(plane, experiment, _stop(plane, request))
    await _tell_workers(plane, stored)
    return acted


async def reset_all(plane: ControlPlane, experiment: str, request: Act) -> Acted:
    acted, stored = await _act_on_all(plane, experiment, _reset(plane, request))
    for found in stored:
        await plane.blobs.delete(f"logs/{found.item.id}/")
    return acted


async def dequeue_all(plane: ControlPlane, experiment: str, request: Act) -> Acted:
    return (await _act_on_all(plane, experiment, _dequeue(plane, request)))[0]


async def enqueue_all(plane: ControlPlane, experiment: str, request: Enqueue) -> Acted:
    await require_queues(plane, [request.queue])
    acted, stored = await _act_on_all(plane, experiment, _enqueue(plane, request))
    published = await publish_permits(plane, stored)
    return acted.evolve(jobs=[found.item for found in published])


async def _act_on_all(
    plane: ControlPlane, experiment: str, decide: Decide
) -> tuple[Acted, list[Stored[Job]]]:
    """The transition for each job that is in a state for it."""
    await EXPERIMENTS.get(plane.store, experiment)
    done: list[Stored[Job]] = []
    skipped: list[Skipped] = []
    async for page in job_pages(plane, experiment):
        changes: list[tuple[Stored[Job], Job]] = []
        for stored in page:
            try:
                changes.append((stored, decide(stored.item)))
            except IllegalTransition as error:
                skipped.append(Skipped(job_id=stored.item.id, why=error.detail))
        applied = await apply_jobs(plane, changes)
        for (stored, _), result in zip(changes, applied, strict=True):
            try:
                done.append(result or await change_job(plane, stored.item.id, decide))
            except IllegalTransition as error:
                skipped.append(Skipped(job_id=stored.item.id, why=error.detail))
    return Acted(jobs=[stored.item for stored in done], skipped=skipped), done


async def _tell_workers(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> None:
    """Running jobs are stopped by their workers, which hear of it at once."""
    sessions = {s.item.attempt.session for s in jobs if s.item.stop and s.item.attempt}
    messages = [Message(control_audience(session), STOP) for session in sorted(sessions)]
    await plane.queue.publish(CONTROL_TOPIC, messages)
