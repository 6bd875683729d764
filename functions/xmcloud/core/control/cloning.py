"""Making the same experiments and jobs again, with some things changed."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from xmcloud.core.control.changing import load_unit
from xmcloud.core.control.content import content_key, put_content
from xmcloud.core.control.experiments import (
    Entry,
    Unit,
    add,
    create_experiment,
    digest_of,
    id_for,
    job_pages,
)
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import require_queues
from xmcloud.core.control.quotas import require_room_for
from xmcloud.core.control.secrets import check_secrets
from xmcloud.core.documents import EXPERIMENTS
from xmcloud.core.errors import OverQuota
from xmcloud.core.identity import Permission
from xmcloud.core.models import Auxiliary, Experiment, Job
from xmcloud.core.overrides import check, generated_script, overridden
from xmcloud.core.patches import carried
from xmcloud.core.protocol import BATCH_LIMIT, CloneExperiment, NewExperiment
from xmcloud.core.runs import for_anyone
from xmcloud.core.specs import GitSource, Image, JobSpec
from xmcloud.core.usage import gpus_of


async def clone_experiment(
    plane: ControlPlane, id: str, request: CloneExperiment, key: str
) -> Experiment:
    """A new experiment whose jobs have the same definitions, but for what the request changes.

    Raises `Forbidden` unless the caller may write in its project.
    """
    original = (await EXPERIMENTS.get(plane.store, id)).item
    jobs = [stored.item async for page in job_pages(plane, id) for stored in page]
    return await _clone(plane, original, jobs, request, key)


async def clone_job(plane: ControlPlane, id: str, request: CloneExperiment, key: str) -> Experiment:
    """A new experiment with that job, and its group."""
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
    project = request.project or original.project
    plane.caller.require(Permission.WRITE, project)
    check(request, [job.spec for job in jobs])
    if request.queue is not None:
        await require_queues(plane, [request.queue])
    specs = await _definitions(plane, jobs, request)
    await check_secrets(plane, project, specs.values())
    units: dict[int, list[Job]] = {}
    for job in jobs:
        units.setdefault(job.unit, []).append(job)
    copies = [_copy(unit, specs, request.queue) for unit in units.values()]
    new = NewExperiment(
        title=request.title or original.title,
        project=project,
        creator=request.creator,
        tags=original.tags,
        notes=original.notes,
    )
    if request.queue is not None:
        await _require_room(plane, new, list(specs.values()), key)
    made = await create_experiment(plane, new, key, cloned_from=original.id)
    digest = digest_of(request)
    for start, part in _batches(copies):
        await add(plane, made.id, part, f"{key}/{start}", digest)
    return (await EXPERIMENTS.get(plane.store, made.id)).item


async def _require_room(
    plane: ControlPlane, new: NewExperiment, specs: Sequence[JobSpec], key: str
) -> None:
    """For all of it; a clone that was made before is not in its own way. Raises `OverQuota`."""
    with_gpus = sum(1 for spec in specs if gpus_of(spec))
    try:
        await require_room_for(plane, new.project, new.creator, len(specs), with_gpus)
    except OverQuota:
        (there,) = await EXPERIMENTS.get_many(plane.store, [id_for(plane, key)])
        if there is None:
            raise


async def _definitions(
    plane: ControlPlane, jobs: Sequence[Job], request: CloneExperiment
) -> dict[str, JobSpec]:
    """Those of the copies, by the id of the original.

    An image is for the jobs that run one; where none does, for those it can stand for.
    """
    diffs: dict[tuple[str, str], str | None] = {}
    for source in (job.spec.executable for job in jobs) if request.commit else ():
        if isinstance(source, GitSource) and source.diff:
            script = generated_script(source)
            if (source.diff, script) not in diffs:
                diffs[source.diff, script] = await _carried(plane, source.diff, script)
    any_image = any(isinstance(job.spec.executable, Image) for job in jobs)
    elsewhere = request.evolve(image=None) if any_image else request
    return {
        job.id: overridden(
            for_anyone(job.spec),
            request if isinstance(job.spec.executable, Image) else elsewhere,
            diffs,
        )
        for job in jobs
    }


async def _carried(plane: ControlPlane, diff: str, script: str) -> str | None:
    """The digest of what of the diff is needed at every commit."""
    kept = carried(await plane.blobs.get(content_key(diff)), script)
    if not kept:
        return None
    digest = hashlib.sha256(kept).hexdigest()
    await put_content(plane, digest, kept)
    return digest


def _copy(unit: Sequence[Job], specs: Mapping[str, JobSpec], queue: str | None) -> Unit:
    """A group in its order."""
    by_id = {job.id: job for job in unit}
    ordered = [by_id[id] for id in unit[0].members if id in by_id]
    entries = [Entry(job.name, specs[job.id], queue, job.id) for job in ordered]
    return Unit(entries, _fresh(unit[0].auxiliary))


def _fresh(auxiliary: Auxiliary | None) -> Auxiliary | None:
    """The units that this one helps have not ended."""
    return auxiliary.evolve(ends_at=None) if auxiliary else None


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
