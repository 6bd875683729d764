"""/v1/targets: the platforms that take jobs from the queues."""

from fastapi import APIRouter
from starlette.responses import Response

from xmcloud.core.control.dispatch import list_targets
from xmcloud.core.identity import Permission
from xmcloud.core.protocol import Targets
from xmcloud.functions.http.common import Plane, allowed_anywhere, answer

router = APIRouter(prefix="/targets", tags=["targets"])


@router.get("", response_model=Targets, dependencies=[allowed_anywhere(Permission.READ)])
async def get_targets(plane: Plane) -> Response:
    """What each runs, how much it may, and what it refuses for now."""
    return answer(await list_targets(plane))
