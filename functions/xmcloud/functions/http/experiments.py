"""/v1/experiments"""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from xmcloud.core.control import changes, cloning, experiments, jobs, pending
from xmcloud.core.identity import EVERYWHERE, Permission
from xmcloud.core.models import Experiment
from xmcloud.core.names import Slug
from xmcloud.core.protocol import (
    Act,
    Acted,
    Changes,
    CloneExperiment,
    EditExperiment,
    Enqueue,
    Experiments,
    ExperimentStatus,
    Jobs,
    NewExperiment,
    NewUnits,
    PendingExperiment,
    Stop,
)
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Caller,
    Cursor,
    ExperimentId,
    IdempotencyKey,
    Limit,
    OwnExperimentId,
    Plane,
    Wait,
    answer,
    signed,
)

router = APIRouter(prefix="/experiments", tags=["experiments"])


@router.post("", status_code=201, response_model=Experiment)
async def create_experiment(
    plane: Plane,
    caller: Caller,
    body: Annotated[NewExperiment, examples.NEW_EXPERIMENT],
    key: IdempotencyKey,
) -> Response:
    """Makes an experiment without units."""
    caller.require(Permission.WRITE, body.project)
    return answer(await experiments.create_experiment(plane, signed(caller, body), key), 201)


@router.get("", response_model=Experiments)
async def list_experiments(
    plane: Plane,
    caller: Caller,
    project: Annotated[
        Slug | None, Query(description="Of this project; all of them by default.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response:
    """The newest first, each with how many of its jobs are in each state."""
    caller.require(Permission.READ, project or EVERYWHERE)
    return answer(await experiments.list_experiments(plane, project, limit, cursor))


@router.get("/{id}", response_model=ExperimentStatus)
async def get_experiment(plane: Plane, id: ExperimentId) -> Response:
    """The experiment, and how many of its jobs are in each state."""
    return answer(await experiments.experiment_status(plane, id))


@router.patch("/{id}", response_model=Experiment)
async def edit_experiment(
    plane: Plane, id: OwnExperimentId, body: Annotated[EditExperiment, examples.EDIT_EXPERIMENT]
) -> Response:
    """Changes the title, tags or notes."""
    return answer(await experiments.edit_experiment(plane, id, body))


@router.post("/{id}/units", status_code=201, response_model=Jobs)
async def add_units(
    plane: Plane,
    id: OwnExperimentId,
    body: Annotated[NewUnits, examples.NEW_UNITS],
    key: IdempotencyKey,
) -> Response:
    """Adds units, numbered on from the last one; their jobs in the order of the body."""
    return answer(Jobs(jobs=await experiments.add_units(plane, id, body, key)), 201)


@router.get("/{id}/jobs", response_model=Jobs)
async def list_jobs(
    plane: Plane,
    id: ExperimentId,
    unit: Annotated[int | None, Query(ge=1, le=10**9, description="This one alone.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """In order of unit."""
    return answer(await experiments.list_jobs(plane, id, unit, limit, cursor))


@router.get("/{id}/pending", response_model=PendingExperiment)
async def why_pending_in(plane: Plane, id: ExperimentId) -> Response:
    """Why those of its jobs wait that do, grouped by the causes."""
    return answer(await pending.why_pending_in(plane, id))


@router.get("/{id}/changes", response_model=Changes)
async def follow_changes(
    plane: Plane,
    id: ExperimentId,
    since: Annotated[str | None, Query(max_length=100)] = None,
    wait_seconds: Wait = 0,
) -> Response:
    """Jobs that changed since a cursor; without one, all of them."""
    return answer(await changes.changes(plane, id, since, wait_seconds))


@router.post("/{id}/clone", status_code=201, response_model=Experiment)
async def clone_experiment(
    plane: Plane,
    caller: Caller,
    id: ExperimentId,
    body: Annotated[CloneExperiment, examples.CLONE],
    key: IdempotencyKey,
) -> Response:
    """A new experiment with the same definitions but for the changes: drafts, or in a queue."""
    return answer(await cloning.clone_experiment(plane, id, signed(caller, body), key), 201)


@router.post("/{id}/stop", response_model=Acted)
async def stop_experiment(
    plane: Plane, caller: Caller, id: OwnExperimentId, body: Annotated[Stop, examples.STOP]
) -> Response:
    """Stops all jobs of it; those that are over already are skipped."""
    return answer(await jobs.stop_all(plane, id, signed(caller, body)))


@router.post("/{id}/reset", response_model=Acted)
async def reset_experiment(
    plane: Plane, caller: Caller, id: OwnExperimentId, body: Annotated[Act, examples.ACT]
) -> Response:
    """Makes drafts of all its jobs; those that wait or run are skipped."""
    return answer(await jobs.reset_all(plane, id, signed(caller, body)))


@router.post("/{id}/enqueue", response_model=Acted)
async def enqueue_experiment(
    plane: Plane, caller: Caller, id: OwnExperimentId, body: Annotated[Enqueue, examples.ENQUEUE]
) -> Response:
    """Enqueues all its jobs that are drafts, stopped or failed."""
    return answer(await jobs.enqueue_all(plane, id, signed(caller, body)))


@router.post("/{id}/dequeue", response_model=Acted)
async def dequeue_experiment(
    plane: Plane, caller: Caller, id: OwnExperimentId, body: Annotated[Act, examples.ACT]
) -> Response:
    """Takes all its waiting jobs out of their queues."""
    return answer(await jobs.dequeue_all(plane, id, signed(caller, body)))
