"""/v1/jobs"""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from xmcloud.core.control import cloning, jobs, logs, pending, queues, statistics
from xmcloud.core.documents import JOBS
from xmcloud.core.models import Experiment, Job, Statistics
from xmcloud.core.protocol import (
    Act,
    CloneExperiment,
    EditJob,
    Enqueue,
    LogSlice,
    Move,
    Pending,
    Stop,
)
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Caller,
    IdempotencyKey,
    JobId,
    OperatedJobId,
    OwnJobId,
    Plane,
    Wait,
    answer,
    signed,
)

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.get("/{id}", response_model=Job)
async def get_job(plane: Plane, id: JobId) -> Response:
    """The job with its definition, its place and its attempts."""
    return answer((await JOBS.get(plane.store, id)).item)


@router.get("/{id}/pending", response_model=Pending)
async def why_pending(plane: Plane, id: JobId) -> Response:
    """Why the job does not run yet, the most decisive cause first; none once it has started."""
    return answer(await pending.why_pending(plane, id))


@router.patch("/{id}", response_model=Job)
async def edit_job(
    plane: Plane, id: OwnJobId, body: Annotated[EditJob, examples.EDIT_JOB]
) -> Response:
    """Changes the definition of a draft."""
    return answer(await jobs.edit_job(plane, id, body))


@router.post("/{id}/stop", response_model=Job)
async def stop_job(
    plane: Plane, caller: Caller, id: OwnJobId, body: Annotated[Stop, examples.STOP]
) -> Response:
    """Ends a waiting job at once; asks the worker to end a running one."""
    return answer(await jobs.stop_job(plane, id, signed(caller, body)))


@router.post("/{id}/reset", response_model=Job)
async def reset_job(
    plane: Plane, caller: Caller, id: OwnJobId, body: Annotated[Act, examples.ACT]
) -> Response:
    """Back to a draft; results, attempts and logs are cleared."""
    return answer(await jobs.reset_job(plane, id, signed(caller, body)))


@router.post("/{id}/enqueue", response_model=Job)
async def enqueue_job(
    plane: Plane, caller: Caller, id: OwnJobId, body: Annotated[Enqueue, examples.ENQUEUE]
) -> Response:
    """A draft, stopped or failed job waits at the end of a queue."""
    return answer(await jobs.enqueue_job(plane, id, signed(caller, body)))


@router.post("/{id}/dequeue", response_model=Job)
async def dequeue_job(
    plane: Plane, caller: Caller, id: OwnJobId, body: Annotated[Act, examples.ACT]
) -> Response:
    """Back to the state it was enqueued from."""
    return answer(await jobs.dequeue_job(plane, id, signed(caller, body)))


@router.post("/{id}/move", response_model=Job)
async def move_job(
    plane: Plane, caller: Caller, id: OperatedJobId, body: Annotated[Move, examples.MOVE]
) -> Response:
    """Elsewhere in its queue, or to another queue."""
    return answer(await queues.move_job(plane, id, signed(caller, body)))


@router.post("/{id}/clone", status_code=201, response_model=Experiment)
async def clone_job(
    plane: Plane,
    caller: Caller,
    id: JobId,
    body: Annotated[CloneExperiment, examples.CLONE],
    key: IdempotencyKey,
) -> Response:
    """A new experiment with this job and its group: drafts, or in a queue."""
    return answer(await cloning.clone_job(plane, id, signed(caller, body), key), 201)


@router.get("/{id}/statistics", response_model=Statistics)
async def get_statistics(
    plane: Plane,
    id: JobId,
    fence: Annotated[
        int | None, Query(ge=1, le=10**9, description="The attempt; the newest by default.")
    ] = None,
) -> Response:
    """What the processes of an attempt used; 404 where nothing was measured."""
    return answer(await statistics.job_statistics(plane, id, fence))


@router.get("/{id}/log", response_model=LogSlice)
async def read_log(
    plane: Plane,
    id: JobId,
    fence: Annotated[
        int | None, Query(ge=1, le=10**9, description="The attempt; the newest by default.")
    ] = None,
    offset: Annotated[int, Query(ge=0, le=10**15, description="In bytes.")] = 0,
    wait_seconds: Wait = 0,
) -> Response:
    """A piece of the combined stdout and stderr; waits for more while the attempt runs."""
    return answer(await logs.read_log(plane, id, fence, offset, wait_seconds))
