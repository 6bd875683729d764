"""What the routes share: parameters, answers, and access to the control plane."""

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from xmcloud.core.control.jobs import resolve
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import EXPERIMENTS, JOBS
from xmcloud.core.names import Key, Slug, random_id

MAX_WAIT_SECONDS = 50
"""For long polls; well under the 60 s after which proxies give up on a silent request."""


def answer(model: BaseModel, status: int = 200) -> Response:
    """The model as JSON, written by pydantic in one step."""
    return Response(model.model_dump_json(), status, media_type="application/json")


async def control_plane(request: Request) -> ControlPlane:
    plane = request.app.state.plane
    assert isinstance(plane, ControlPlane)
    return plane


Plane = Annotated[ControlPlane, Depends(control_plane)]


async def _experiment_id(
    plane: Plane, id: Annotated[str, Path(max_length=100, description="Id, or its beginning.")]
) -> str:
    return await resolve(plane, EXPERIMENTS.name, id)


async def _job_id(
    plane: Plane, id: Annotated[str, Path(max_length=100, description="Id, or its beginning.")]
) -> str:
    return await resolve(plane, JOBS.name, id)


async def _idempotency_key(
    key: Annotated[
        Key | None,
        Header(
            alias="Idempotency-Key",
            description="The same key gives the same object, however often it is sent.",
        ),
    ] = None,
) -> str:
    return key or random_id()


ExperimentId = Annotated[str, Depends(_experiment_id)]
JobId = Annotated[str, Depends(_job_id)]
SessionId = Annotated[str, Path(pattern="^[a-z2-7]{16}$")]
Name = Annotated[Slug, Path()]
IdempotencyKey = Annotated[str, Depends(_idempotency_key)]
Limit = Annotated[int, Query(ge=1, le=400, description="Items in a page.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="From the page before.")]
Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for something new.")
]
