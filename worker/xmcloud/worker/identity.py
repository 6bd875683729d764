"""What an attempt knows about itself and about its group."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from xmcloud.core.bindings import bind
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job, Peer
from xmcloud.core.trace import VARIABLE
from xmcloud.worker.setup import SetupFailed

_VARIABLE_BYTES = 100_000
"""Less than what Linux lets one variable have."""


def peers_of(job: Job) -> dict[str, Peer]:
    """The jobs of its group by name, this too; none for a job that is alone."""
    return job.attempt.peers if job.attempt else {}


def with_peers(job: Job, peers: Mapping[str, Peer]) -> Job:
    """A job under way that reaches its group at other addresses."""
    *earlier, attempt = job.attempts
    return job.evolve(attempts=(*earlier, attempt.evolve(peers=dict(peers))))


def bound(job: Job) -> Job:
    """With the addresses of its peers filled in. Raises `SetupFailed`."""
    peers = peers_of(job)
    try:
        return bind(job, peers) if peers else job
    except InvalidInput as error:
        raise SetupFailed(f"Cannot fill in the address of a job: {error}") from error


@dataclass(frozen=True, slots=True)
class Places:
    """Paths as the processes of an attempt see them.

    Below `outputs` is what a run leaves behind; `checkpoint` is there again for the next attempt.
    """

    results: str
    outputs: str
    checkpoint: str


def job_environment(job: Job, places: Places) -> dict[str, str]:
    """What tells a process which job it is, where its results go, and where its peers are."""
    return {
        "XMCLOUD_EXPERIMENT_ID": job.experiment_id,
        "XMCLOUD_UNIT": str(job.unit),
        "XMCLOUD_JOB_NAME": job.name,
        "XMCLOUD_RESULTS": places.results,
        "XMCLOUD_OUTPUTS": places.outputs,
        "XMCLOUD_CHECKPOINT": places.checkpoint,
        **_trace(job),
        **_arguments(job),
        **_of_group(job),
        **mark(job.id, job.fence),
    }


def _arguments(job: Job) -> dict[str, str]:
    """With their types; none that are more than a variable holds."""
    pairs = [[argument.name, argument.value] for argument in job.spec.arguments]
    text = json.dumps(pairs)
    return {"XMCLOUD_ARGUMENTS": text} if pairs and len(text) <= _VARIABLE_BYTES else {}


def _trace(job: Job) -> dict[str, str]:
    """What its own spans belong below, unless it says so itself."""
    wanted = job.trace and VARIABLE not in job.spec.environment
    return {VARIABLE: job.trace} if wanted else {}


def _of_group(job: Job) -> dict[str, str]:
    peers = peers_of(job)
    if not peers:
        return {}
    addresses = {name: f"{peer.host}:{peer.port}" for name, peer in peers.items()}
    return {"XMCLOUD_PEERS": json.dumps(addresses), "XMCLOUD_PORT": str(peers[job.name].port)}


def mark(job_id: str, fence: int) -> dict[str, str]:
    """The variables that all processes of an attempt inherit and no others have."""
    return {"XMCLOUD_JOB_ID": job_id, "XMCLOUD_ATTEMPT": str(fence)}
