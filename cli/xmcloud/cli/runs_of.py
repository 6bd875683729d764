"""The jobs that a reference on the command line stands for, and what is known of them."""

from collections.abc import Iterable

from xmcloud.cli.options import Reference
from xmcloud.cli.resolve import find
from xmcloud.cli.rows import full_reference
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job
from xmcloud.core.protocol import CloneExperiment, ExperimentStatus
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.comparing.facts import execution
from xmcloud.xm_cloud.comparing.jobs import Side


def ordered(jobs: Iterable[Job]) -> list[Job]:
    """By unit, and in the order of each group."""
    return sorted(jobs, key=lambda job: (job.unit, job.members.index(job.id)))


def jobs_of(client: Client, found: ExperimentStatus | Job) -> list[Job]:
    """Those of the experiment; of a job, the jobs of its group too: what a clone of it has."""
    if not isinstance(found, Job):
        return ordered(client.jobs_of(found.experiment.id))
    if not found.group:
        return [found]
    return ordered(client.jobs_of(found.experiment_id, unit=found.unit))


def named_jobs(client: Client, reference: Reference) -> list[Job]:
    """Those to be compared: of a job that was named, that one alone. Raises `NotFound`."""
    found = find(client, reference)
    whole_unit = isinstance(found, Job) and reference.unit is not None and not reference.name
    jobs = [found] if isinstance(found, Job) and not whole_unit else jobs_of(client, found)
    if not jobs:
        raise NotFound("job in experiment", str(reference))
    return jobs


def clone(client: Client, found: ExperimentStatus | Job, order: CloneExperiment) -> list[Job]:
    """The jobs of the copy of the experiment, or of the job with its group."""
    copy = (
        client.clone_job(found.id, order)
        if isinstance(found, Job)
        else client.clone_experiment(found.experiment.id, order)
    )
    return ordered(client.jobs_of(copy.id))


class Freezes:
    """The lists of installed packages, each fetched once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, str | None] = {}

    def side(self, job: Job) -> Side:
        ran = execution(job)
        return Side(job, full_reference(job), self._list(ran.packages if ran else None))

    def _list(self, digest: str | None) -> str | None:
        """None for one that is not stored any more."""
        if digest is None:
            return None
        if digest not in self._known:
            try:
                self._known[digest] = self._client.get_blob(digest).decode(errors="replace")
            except NotFound:
                self._known[digest] = None
        return self._known[digest]
