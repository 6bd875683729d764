"""Creating experiments and adding, cloning and listing their units."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from xmcloud.core import queries
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff, publish_permits
from xmcloud.core.control.queues import require_queues
from xmcloud.core.documents import EXPERIMENTS, JOBS, Stored
from xmcloud.core.errors import Contended, InvalidInput, KeyReused
from xmcloud.core.lifecycle import UNCONFIRMED, position_at
from xmcloud.core.models import (
    Argument,
    Experiment,
    Job,
    JobSpec,
    JobState,
    Model,
    Reason,
    ReasonCode,
    Waiting,
)
from xmcloud.core.names import derived_id, job_id
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.protocol import (
    BATCH_LIMIT,
    CloneExperiment,
    EditExperiment,
    Experiments,
    ExperimentStatus,
    Jobs,
    NewExperiment,
    NewUnits,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A job to be made."""

    name: str
    spec: JobSpec
    queue: str | None
    cloned_from: str | None = None


def _digest(request: Model) -> str:
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


async def create_experiment(
    plane: ControlPlane, request: NewExperiment, key: str, *, cloned_from: str | None = None
) -> Experiment:
    """The experiment of that idempotency key, made if it is not there. Raises `KeyReused`."""
    experiment = Experiment(
        id=derived_id("experiment", key),
        title=request.title,
        creator=request.creator,
        tags=request.tags,
        notes=request.notes,
        cloned_from=cloned_from,
        created_at=plane.clock.now(),
        request=_digest(request),
    )
    try:
        await plane.store.commit([EXPERIMENTS.create(experiment)])
    except PreconditionFailed:
        existing = (await EXPERIMENTS.get(plane.store, experiment.id)).item
        if existing.request != experiment.request:
            raise KeyReused(key) from None
        return existing
    return experiment


async def add_units(
    plane: ControlPlane, experiment_id: str, request: NewUnits, key: str
) -> list[Job]:
    """Adds numbered units; a batch with the same key is added once. Raises `KeyReused`."""
    await require_queues(
        plane, {job.queue for unit in request.units for job in unit.jobs if job.queue is not None}
    )
    entries = [_Entry(j.name, j.spec, j.queue) for unit in request.units for j in unit.jobs]
    return await _add(plane, experiment_id, entries, key, _digest(request))


async def _add(
    plane: ControlPlane, experiment_id: str, entries: Sequence[_Entry], key: str, digest: str
) -> list[Job]:
    for attempt in range(TRIES):
        experiment = await EXPERIMENTS.get(plane.store, experiment_id)
        jobs = _new_jobs(experiment.item, entries, key, digest, plane.clock.now())
        grown = experiment.item.evolve(units=experiment.item.units + len(jobs))
        writes = [EXPERIMENTS.replace(experiment, grown), *map(JOBS.create, jobs)]
        try:
            versions = await plane.store.commit(writes)
        except PreconditionFailed:
            there = await JOBS.get_many(plane.store, [job.id for job in jobs])
            if there[0] is not None:
                return _same_batch([found for found in there if found], key, digest)
            await backoff(attempt)
            continue
        plane.signals.send(f"experiment/{experiment_id}")
        stored = [JOBS.written(j, v) for j, v in zip(jobs, versions[1:], strict=True)]
        return [found.item for found in await publish_permits(plane, stored)]
    raise Contended(f"Experiment {experiment_id}")


def _same_batch(there: list[Stored[Job]], key: str, digest: str) -> list[Job]:
    if there[0].item.batch != digest:
        raise KeyReused(key)
    return [stored.item for stored in there]


def _new_jobs(
    experiment: Experiment, entries: Sequence[_Entry], key: str, digest: str, now: datetime
) -> list[Job]:
    position = position_at(now)
    return [
        Job(
            id=job_id(experiment.id, key, index),
            experiment_id=experiment.id,
            unit=experiment.units + index + 1,
            name=entry.name,
            spec=entry.spec,
            state=JobState.DRAFT if entry.queue is None else JobState.QUEUED,
            reason=_origin(experiment, entry),
            queue=entry.queue or "default",
            position=position + index,
            waiting=None
            if entry.queue is None
            else Waiting(permit_due_at=now + UNCONFIRMED, before=JobState.DRAFT),
            cloned_from=entry.cloned_from,
            created_at=now,
            updated_at=now,
            batch=digest,
        )
        for index, entry in enumerate(entries)
    ]


def _origin(experiment: Experiment, entry: _Entry) -> Reason:
    if entry.cloned_from is not None:
        message = f"cloned from job {entry.cloned_from} by {experiment.creator}"
        return Reason(code=ReasonCode.CLONED, message=message)
    return Reason(code=ReasonCode.CREATED, message=f"created by {experiment.creator}")


async def clone_experiment(
    plane: ControlPlane, id: str, request: CloneExperiment, key: str
) -> Experiment:
    """A new experiment whose jobs are drafts with the same definitions."""
    original = (await EXPERIMENTS.get(plane.store, id)).item
    jobs = [job async for page in job_pages(plane, id) for job in page]
    return await _clone(plane, original, [stored.item for stored in jobs], request, key)


async def clone_job(plane: ControlPlane, id: str, request: CloneExperiment, key: str) -> Experiment:
    """A new experiment with that one job as a draft."""
    job = (await JOBS.get(plane.store, id)).item
    original = (await EXPERIMENTS.get(plane.store, job.experiment_id)).item
    return await _clone(plane, original, [job], request, key)


async def _clone(
    plane: ControlPlane,
    original: Experiment,
    jobs: list[Job],
    request: CloneExperiment,
    key: str,
) -> Experiment:
    entries = [
        _Entry(job.name, with_arguments(job.spec, request.arguments), None, job.id) for job in jobs
    ]
    new = NewExperiment(
        title=request.title or original.title,
        creator=request.creator,
        tags=original.tags,
        notes=original.notes,
    )
    made = await create_experiment(plane, new, key, cloned_from=original.id)
    digest = _digest(request)
    for start in range(0, len(entries), BATCH_LIMIT):
        part = entries[start : start + BATCH_LIMIT]
        await _add(plane, made.id, part, f"{key}/{start}", digest)
    return (await EXPERIMENTS.get(plane.store, made.id)).item


def with_arguments(spec: JobSpec, changes: Mapping[str, JsonValue]) -> JobSpec:
    """The definition with the values of some flags replaced. Raises `InvalidInput`."""
    known = [argument.name for argument in spec.arguments if argument.name is not None]
    for name, value in changes.items():
        if name not in known:
            flags = ", ".join(known) or "none: its arguments are positional"
            raise InvalidInput("arguments", {name: value}, f"a flag of the job ({flags})")
    replaced = tuple(
        Argument(name=argument.name, value=changes[argument.name])
        if argument.name is not None and argument.name in changes
        else argument
        for argument in spec.arguments
    )
    return spec.evolve(arguments=replaced)


async def job_pages(plane: ControlPlane, experiment_id: str) -> AsyncIterator[list[Stored[Job]]]:
    """All jobs of an experiment, a page at a time, in order of unit."""
    query, cursor = queries.jobs_of(experiment_id), None
    while True:
        page, cursor = await JOBS.find(plane.store, query.page(BATCH_LIMIT, cursor))
        yield page
        if cursor is None:
            return


async def list_jobs(
    plane: ControlPlane, id: str, unit: int | None, limit: int, cursor: str | None
) -> Jobs:
    """A page of the jobs of an experiment, or of one of its units. Raises `NotFound`."""
    await EXPERIMENTS.get(plane.store, id)
    query = queries.jobs_of(id) if unit is None else queries.jobs_of_unit(id, unit)
    page, after = await JOBS.find(plane.store, query.page(limit, cursor))
    return Jobs(jobs=[stored.item for stored in page], cursor=after)


async def experiment_status(plane: ControlPlane, id: str) -> ExperimentStatus:
    return await _status(plane, (await EXPERIMENTS.get(plane.store, id)).item)


async def _status(plane: ControlPlane, experiment: Experiment) -> ExperimentStatus:
    counts = await asyncio.gather(
        *(plane.store.count(queries.jobs_in_state(experiment.id, state)) for state in JobState)
    )
    states = {state: count for state, count in zip(JobState, counts, strict=True) if count}
    return ExperimentStatus(experiment=experiment, states=states)


async def edit_experiment(plane: ControlPlane, id: str, request: EditExperiment) -> Experiment:
    """Changes what people say about it."""
    changes = request.model_dump(exclude_none=True)
    for attempt in range(TRIES):
        stored = await EXPERIMENTS.get(plane.store, id)
        edited = stored.item.evolve(**changes)
        try:
            await plane.store.commit([EXPERIMENTS.replace(stored, edited)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        return edited
    raise Contended(f"Experiment {id}")


async def list_experiments(plane: ControlPlane, limit: int, cursor: str | None) -> Experiments:
    page, after = await EXPERIMENTS.find(plane.store, queries.experiments().page(limit, cursor))
    statuses = await asyncio.gather(*(_status(plane, stored.item) for stored in page))
    return Experiments(experiments=list(statuses), cursor=after)
