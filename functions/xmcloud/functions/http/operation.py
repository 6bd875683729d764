"""/v1/ready and /v1/metrics: for what watches over a deployment."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from xmcloud.core.identity import Permission
from xmcloud.functions.http.common import Plane, allowed_anywhere, answer
from xmcloud.functions.observability.exposition import MEDIA_TYPE
from xmcloud.functions.observability.metrics import metrics
from xmcloud.functions.observability.readiness import Ready

public = APIRouter(tags=["operation"])
router = APIRouter(tags=["operation"])

_TEXT = {
    "description": "Prometheus' text format.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


@public.get("/ready", response_model=Ready)
async def ready(request: Request) -> Response:
    """Says that store, queue and blobs answer, or which does not (503); needs no token."""
    await request.app.state.readiness.check(request.app.state.plane)
    return answer(Ready())


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: _TEXT},
    dependencies=[allowed_anywhere(Permission.READ)],
)
async def get_metrics(request: Request, plane: Plane) -> Response:
    """Queues, jobs, workers and targets, and the requests that this process answered.

    Counted when it is asked for: ask once a minute, or less often.
    """
    text = await metrics(plane, request.app.state.counts)
    return Response(text, media_type=MEDIA_TYPE)
