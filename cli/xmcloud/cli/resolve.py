"""From what was typed to the experiment or job that is meant."""

from collections.abc import Callable
from typing import TypeVar

from xmcloud.cli.options import Reference
from xmcloud.core.errors import NotFound, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.names import ID_LENGTH
from xmcloud.core.protocol import ExperimentStatus
from xmcloud.xm_cloud.client import Client

T = TypeVar("T")


class Ambiguous(XmcloudError):
    """What was typed may mean several things."""

    slug, title, status = "ambiguous", "Ambiguous", 409


def find(client: Client, reference: Reference) -> ExperimentStatus | Job:
    """Raises NotFound and Ambiguous."""
    if reference.unit is not None:
        return _unit(client, reference.id, reference.unit, reference.name)
    experiment = _if_found(lambda: client.experiment(reference.id))
    if experiment is not None and len(reference.id) == ID_LENGTH:
        return experiment
    job = _if_found(lambda: client.job(reference.id))
    if experiment is not None and job is not None:
        raise Ambiguous(
            f"{reference} may be experiment {experiment.experiment.id} or job {job.id}.",
            "Write more of the id.",
        )
    found = experiment or job
    if found is None:
        raise NotFound("experiment or job", reference.id, "See them with `xmcloud list`.")
    return found


def find_job(client: Client, reference: Reference) -> Job:
    """A job; an experiment stands for its only job. Raises NotFound and Ambiguous."""
    found = find(client, reference)
    if isinstance(found, Job):
        return found
    id, units = found.experiment.id, found.experiment.units
    if units == 0:
        raise NotFound("job in experiment", id)
    if units > 1:
        raise Ambiguous(
            f"Experiment {id} has {units} units.",
            f"Name one of them, such as {reference}/1, or the id of a job.",
        )
    return _unit(client, id, 1, "")


def _unit(client: Client, experiment: str, unit: int, name: str) -> Job:
    """Its job of that name; without a name, the first one."""
    jobs = {job.name: job for job in client.jobs_of(experiment, unit=unit)}
    if not jobs:
        raise NotFound(
            "unit", f"{experiment}/{unit}", f"See its units with `xmcloud show {experiment}`."
        )
    if not name:
        any_job = next(iter(jobs.values()))
        return jobs[any_job.group[0].name] if any_job.group else any_job
    if name not in jobs:
        raise NotFound("job", name, f"Unit {unit} has: {', '.join(sorted(jobs))}.")
    return jobs[name]


def _if_found(look: Callable[[], T]) -> T | None:
    try:
        return look()
    except NotFound:
        return None
