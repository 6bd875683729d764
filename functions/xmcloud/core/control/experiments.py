"""Creating experiments, adding units to them, and listing them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from xmcloud.core import queries
from xmcloud.core.base import Model
from xmcloud.core.control.builds import join_builds, known_images
from xmcloud.core.control.changing import spread
from xmcloud.core.control.job_lines import log_changes
from xmcloud.core.control.members import load_project
from xmcloud.core.control.overflow import at_once
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.queues import require_queues
from xmcloud.core.control.quotas import WAITING, require_room
from xmcloud.core.control.secrets import check_secrets
from xmcloud.core.control.targets import check_targets
from xmcloud.core.control.updating import there, update
from xmcloud.core.documents import EXPERIMENTS, JOBS, Stored
from xmcloud.core.errors import Contended, KeyReused, NotFound, OverQuota
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.lifecycle import position_at, waiting_from
from xmcloud.core.models import Auxiliary, Experiment, Job, JobState, Member, Reason, ReasonCode
from xmcloud.core.names import derived_id, job_id
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.protocol import (
    BATCH_LIMIT,
    EditExperiment,
    Experiments,
    ExperimentStatus,
    Jobs,
    NewExperiment,
    NewUnits,
)
from xmcloud.core.specs import JobSpec, pending_build, with_image


@dataclass(frozen=True, slots=True)
class Entry:
    """A job to be made."""

    name: str
    spec: JobSpec
    queue: str | None
    cloned_from: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that start together."""

    entries: Sequence[Entry]
    auxiliary: Auxiliary | None = None


def digest_of(request: Model) -> str:
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


def id_for(plane: ControlPlane, key: str) -> str:
    """Of the experiment that the caller makes with the key."""
    if plane.caller.owner:
        return derived_id("experiment", key)  # as it always was
    return derived_id("experiment", plane.caller.name, key)


async def create_experiment(
    plane: ControlPlane, request: NewExperiment, key: str, *, cloned_from: str | None = None
) -> Experiment:
    """The experiment of that person's key, made if it is not there.

    Raises `KeyReused`, and `NotFound` for the project.
    """
    if request.project != DEFAULT_PROJECT:
        await load_project(plane, request.project)
    experiment = Experiment(
        id=id_for(plane, key),
        project=request.project,
        title=request.title,
        creator=request.creator,
        tags=request.tags,
        notes=request.notes,
        cloned_from=cloned_from,
        created_at=plane.clock.now(),
        request=digest_of(request),
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
    units = [
        Unit([Entry(j.name, j.spec, j.queue) for j in unit.jobs], unit.auxiliary)
        for unit in request.units
    ]
    return await add(plane, experiment_id, units, key, digest_of(request))


async def add(
    plane: ControlPlane, experiment_id: str, units: Sequence[Unit], key: str, digest: str
) -> list[Job]:
    """The jobs of those units, in order, made in one commit.

    Raises `KeyReused` and `OverQuota`.
    """
    images = await known_images(plane, [e.spec for unit in units for e in unit.entries])
    for attempt in range(TRIES):
        experiment = await EXPERIMENTS.get(plane.store, experiment_id)
        now = plane.clock.now()
        made = _new_jobs(experiment.item, units, key, digest, images, now, plane.trace)
        check_targets(plane, made)
        try:
            await require_room(plane, [j for unit in made for j in unit if j.state in WAITING])
        except OverQuota:
            there = await _there(plane, made)
            if not there:
                raise
            return _same_batch(there, key, digest)
        specs = [job.spec for unit in made for job in unit]
        await check_secrets(plane, experiment.item.project, specs)
        early = await at_once(plane, made)
        jobs = [_overflowed(job) if job.id in early else job for unit in made for job in unit]
        grown = experiment.item.evolve(units=experiment.item.units + len(units))
        writes = [EXPERIMENTS.replace(experiment, grown), *map(JOBS.create, jobs)]
        try:
            versions = await plane.store.commit(writes)
        except PreconditionFailed:
            if there := await _there(plane, made):
                return _same_batch(there, key, digest)
            await backoff(attempt)
            continue
        plane.signals.send(f"experiment/{experiment_id}")
        log_changes((None, job) for job in jobs)
        stored = [JOBS.written(j, v) for j, v in zip(jobs, versions[1:], strict=True)]
        return [found.item for found in await join_builds(plane, await spread(plane, stored))]
    raise Contended(f"Experiment {experiment_id}")


async def _there(plane: ControlPlane, made: Sequence[Sequence[Job]]) -> list[Stored[Job]]:
    """The jobs, if the same request was served before."""
    found = await JOBS.get_many(plane.store, [job.id for unit in made for job in unit])
    return [stored for stored in found if stored is not None]


def _overflowed(job: Job) -> Job:
    """It waits for its overflow target from the beginning."""
    waiting = job.waiting.evolve(overflow_at=None) if job.waiting else None
    return job.evolve(overflowed=True, waiting=waiting)


def _same_batch(there: list[Stored[Job]], key: str, digest: str) -> list[Job]:
    if there[0].item.batch != digest:
        raise KeyReused(key)
    return [stored.item for stored in there]


def _new_jobs(
    experiment: Experiment,
    units: Sequence[Unit],
    key: str,
    digest: str,
    images: Mapping[str, str],
    now: datetime,
    trace: str,
) -> list[list[Job]]:
    """The jobs of each unit."""
    made: list[list[Job]] = []
    index, position = 0, position_at(now)
    for number, unit in enumerate(units, experiment.units + 1):
        places = range(index, index + len(unit.entries))
        members = tuple(
            Member(id=job_id(experiment.id, key, place), name=entry.name)
            for place, entry in zip(places, unit.entries, strict=True)
        )
        common = {
            "experiment_id": experiment.id,
            "project": experiment.project,
            "creator": experiment.creator,
            "unit": number,
            "group": members if len(members) > 1 else (),
            "auxiliary": unit.auxiliary,
            "created_at": now,
            "updated_at": now,
            "batch": digest,
            "trace": trace,
        }
        made.append([])
        for place, member, entry in zip(places, members, unit.entries, strict=True):
            own = {"id": member.id, "position": position + place, "name": entry.name}
            state = _state(entry, with_image(entry.spec, images), now)
            origin = {"reason": _origin(experiment, entry), "cloned_from": entry.cloned_from}
            made[-1].append(Job.model_validate({**common, **own, **state, **origin}))
        index = places.stop
    return made


def _state(entry: Entry, spec: JobSpec, now: datetime) -> dict[str, object]:
    """A draft without a queue, building without its image, queued with both."""
    if entry.queue is None:
        return {"spec": spec, "state": JobState.DRAFT, "queue": "default"}
    queued = {"spec": spec, "queue": entry.queue}
    if pending_build(spec) is not None:
        return {**queued, "state": JobState.BUILDING}
    waiting = waiting_from(spec, JobState.DRAFT, now, overflowed=False)
    return {**queued, "state": JobState.QUEUED, "waiting": waiting}


def _origin(experiment: Experiment, entry: Entry) -> Reason:
    if entry.cloned_from is not None:
        message = f"cloned from job {entry.cloned_from} by {experiment.creator}"
        return Reason(code=ReasonCode.CLONED, message=message)
    return Reason(code=ReasonCode.CREATED, message=f"created by {experiment.creator}")


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
    missing = NotFound("experiment", id)
    return await update(
        plane, EXPERIMENTS, id, lambda experiment: there(experiment, missing).evolve(**changes)
    )


async def list_experiments(
    plane: ControlPlane, project: str | None, limit: int, cursor: str | None
) -> Experiments:
    """A page of all, or of those of a project, the newest first."""
    query = queries.experiments_in(project) if project else queries.experiments()
    page, after = await EXPERIMENTS.find(plane.store, query.page(limit, cursor))
    statuses = await asyncio.gather(*(_status(plane, stored.item) for stored in page))
    return Experiments(experiments=list(statuses), cursor=after)
