"""Making the same experiments and jobs again, with some flags changed."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from xmcloud.core.control.changing import load_unit
from xmcloud.core.control.experiments import (
    Entry,
    Unit,
    add,
    create_experiment,
    digest_of,
    job_pages,
)
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import EXPERIMENTS
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Experiment, Job
from xmcloud.core.protocol import BATCH_LIMIT, CloneExperiment, NewExperiment
from xmcloud.core.specs import Argument, JobSpec


async def clone_experiment(
    plane: ControlPlane, id: str, request: CloneExperiment, key: str
) -> Experiment:
    """A new experiment whose jobs are drafts with the same definitions."""
    original = (await EXPERIMENTS.get(plane.store, id)).item
    jobs = [stored.item async for page in job_pages(plane, id) for stored in page]
    return await _clone(plane, original, jobs, request, key)


async def clone_job(plane: ControlPlane, id: str, request: CloneExperiment, key: str) -> Experiment:
    """A new experiment with that job, and its group, as drafts."""
    unit = [stored.item for stored in await load_unit(plane, id)]
    original = (await EXPERIMENTS.get(plane.store, unit[0].experiment_id)).item
    return await _clone(plane, original, unit, request, key)


async def _clone(
    plane: ControlPlane,
    original: Experiment,
    jobs: Sequence[Job],
    request: CloneExperiment,
    key: str,
) -> Experiment:
    units: dict[int, list[Job]] = {}
    for job in jobs:
        units.setdefault(job.unit, []).append(job)
    copies = [_copy(unit, request.arguments) for unit in units.values()]
    new = NewExperiment(
        title=request.title or original.title,
        creator=request.creator,
        tags=original.tags,
        notes=original.notes,
    )
    made = await create_experiment(plane, new, key, cloned_from=original.id)
    digest = digest_of(request)
    for start, part in _batches(copies):
        await add(plane, made.id, part, f"{key}/{start}", digest)
    return (await EXPERIMENTS.get(plane.store, made.id)).item


def _copy(unit: Sequence[Job], changes: Mapping[str, JsonValue]) -> Unit:
    """A group in its order; a flag changes in those of its jobs that have it."""
    by_id = {job.id: job for job in unit}
    entries = []
    for job in (by_id[id] for id in unit[0].members if id in by_id):
        others = {a.name for each in unit if each is not job for a in each.spec.arguments}
        own = {a.name for a in job.spec.arguments}
        mine = {n: value for n, value in changes.items() if n in own or n not in others}
        entries.append(Entry(job.name, with_arguments(job.spec, mine), None, job.id))
    return Unit(entries, unit[0].auxiliary)


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


def _batches(units: Sequence[Unit]) -> Iterator[tuple[int, list[Unit]]]:
    """As many whole units as one commit takes, and the number of the first."""
    part: list[Unit] = []
    size = start = 0
    for number, unit in enumerate(units):
        if part and size + len(unit.entries) > BATCH_LIMIT:
            yield start, part
            part, size, start = [], 0, number
        part.append(unit)
        size += len(unit.entries)
    if part:
        yield start, part
