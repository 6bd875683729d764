"""/v1/queues"""

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from xmcloud.core.control import queues
from xmcloud.core.identity import Permission
from xmcloud.core.models import QueueState
from xmcloud.core.protocol import Jobs, NewQueue, Queues, QueueStatus
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Cursor,
    Limit,
    Name,
    Plane,
    allowed,
    allowed_anywhere,
    answer,
)

router = APIRouter(prefix="/queues", tags=["queues"])


@router.get("", response_model=Queues, dependencies=[allowed_anywhere(Permission.READ)])
async def list_queues(plane: Plane) -> Response:
    """The highest priority first."""
    return answer(await queues.list_queues(plane))


@router.post(
    "", status_code=201, response_model=QueueState, dependencies=[allowed(Permission.OPERATE)]
)
async def create_queue(plane: Plane, body: Annotated[NewQueue, examples.NEW_QUEUE]) -> Response:
    """Makes a queue; workers take from it when they name it."""
    return answer(await queues.create_queue(plane, body), 201)


@router.get("/{name}", response_model=QueueStatus, dependencies=[allowed_anywhere(Permission.READ)])
async def get_queue(plane: Plane, name: Name) -> Response:
    """The queue, how many jobs wait in it and since when."""
    return answer(await queues.queue_status(plane, name))


@router.get("/{name}/jobs", response_model=Jobs, dependencies=[allowed_anywhere(Permission.READ)])
async def list_waiting(
    plane: Plane, name: Name, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """What waits, in order; what the caller may not see is left out."""
    return answer(await queues.queue_jobs(plane, name, limit, cursor))


@router.post("/{name}/pause", response_model=QueueState, dependencies=[allowed(Permission.OPERATE)])
async def pause_queue(plane: Plane, name: Name) -> Response:
    """Nothing is claimed from it until it is resumed; what runs goes on."""
    return answer(await queues.pause_queue(plane, name))


@router.post(
    "/{name}/resume", response_model=QueueState, dependencies=[allowed(Permission.OPERATE)]
)
async def resume_queue(plane: Plane, name: Name) -> Response:
    """Workers hear of what waits at once."""
    return answer(await queues.resume_queue(plane, name))
