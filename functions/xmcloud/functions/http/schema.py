"""/v1/schema: whether the documents have the form of this version already."""

from fastapi import APIRouter
from starlette.responses import Response

from xmcloud.core.control.migrating import load_schema
from xmcloud.core.identity import Permission
from xmcloud.core.migrations import LATEST, SchemaStatus
from xmcloud.functions.http.common import Plane, allowed_anywhere, answer

router = APIRouter(tags=["operation"])


@router.get(
    "/schema", response_model=SchemaStatus, dependencies=[allowed_anywhere(Permission.READ)]
)
async def get_schema(plane: Plane) -> Response:
    """How far an upgrade is: it is over when `version` is `latest`."""
    state, _ = await load_schema(plane)
    return answer(SchemaStatus(version=state.version, latest=LATEST, next_look=state.next_at))
