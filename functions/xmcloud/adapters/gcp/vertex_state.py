"""What a custom job of Vertex AI tells of its state."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from google.cloud import aiplatform_v1 as vertex

from xmcloud.core.platforms import PlatformJob, PlatformState

_CONSOLE = "https://console.cloud.google.com"
_STATES: Mapping[str, PlatformState] = {
    "UNSPECIFIED": PlatformState.PENDING,
    "QUEUED": PlatformState.PENDING,
    "PENDING": PlatformState.PENDING,
    "PAUSED": PlatformState.PENDING,
    "RUNNING": PlatformState.RUNNING,
    "UPDATING": PlatformState.RUNNING,
    "CANCELLING": PlatformState.RUNNING,
    "SUCCEEDED": PlatformState.SUCCEEDED,
    "PARTIALLY_SUCCEEDED": PlatformState.FAILED,
    "EXPIRED": PlatformState.FAILED,
    "CANCELLED": PlatformState.CANCELLED,
}
# The texts stand in Google's "Understand the custom training service", under "How Vertex AI
# handles training job errors", and in "Use Spot VMs with training", which says that a job whose
# machines are preempted fails with a STOCKOUT error. Behind the first stands what the replica
# wrote, which may contain the others.
_EXITED = re.compile(
    r"The replica \S+ (?:ran out of memory and )?exited with a non-zero status of (\d+)"
)
_PREEMPTED = re.compile(r"preempted", re.IGNORECASE)
_STOCKOUT = re.compile(r"STOCKOUT|Resources are insufficient in region")
_INTERNAL = re.compile(r"Internal error occurred for the current attempt")
_SERVICE_CODES = frozenset({2, 8, 10, 13, 14, 15})
"""Of google.rpc.Code: unknown, resource exhausted, aborted, internal, unavailable, data loss."""


def platform_job(job: vertex.CustomJob, name: str, project: str) -> PlatformJob:
    """`name` is that of the job with the id of its project, where the service tells the number."""
    _, _, _, location, _, id = name.split("/")
    state, exit_code = _state(job)
    logs = quote(f'resource.type="ml_job" resource.labels.job_id="{id}"', safe="")
    return PlatformJob(
        name=name,
        state=state,
        message=job.error.message,
        log_url=f"{_CONSOLE}/logs/query;query={logs}?project={project}",
        url=f"{_CONSOLE}/vertex-ai/locations/{location}/training/{id}?project={project}",
        exit_code=exit_code,
    )


def _state(job: vertex.CustomJob) -> tuple[PlatformState, int | None]:
    word = job.state.name.removeprefix("JOB_STATE_")
    if word != "FAILED":
        return _STATES[word], 0 if word == "SUCCEEDED" else None
    if exited := _EXITED.match(job.error.message):
        return PlatformState.FAILED, int(exited.group(1))
    return _failure(job), None


def _failure(job: vertex.CustomJob) -> PlatformState:
    message = job.error.message
    spot = job.job_spec.scheduling.strategy.name == "SPOT"
    if spot and (_PREEMPTED.search(message) or _STOCKOUT.search(message)):
        return PlatformState.PREEMPTED
    if job.error.code in _SERVICE_CODES or _STOCKOUT.search(message) or _INTERNAL.search(message):
        return PlatformState.BROKEN
    return PlatformState.FAILED
