"""What the routes share: parameters, answers, and access to the control plane."""

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from xmcloud.core.control.jobs import resolve
from xmcloud.core.control.migrating import require_known_schema
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import EXPERIMENTS, JOBS, Collection
from xmcloud.core.errors import Unauthorized
from xmcloud.core.identity import Permission, Principal, Scope, Signed
from xmcloud.core.models import Experiment, Job
from xmcloud.core.names import Key, Slug, random_id
from xmcloud.core.trace import traceparent
from xmcloud.functions.http.auth import principal_of

MAX_WAIT_SECONDS = 50
"""For long polls; well under the 60 s after which proxies give up on a silent request."""


def answer(model: BaseModel, status: int = 200) -> Response:
    """The model as JSON, written by pydantic in one step."""
    return Response(model.model_dump_json(), status, media_type="application/json")


async def control_plane(request: Request) -> ControlPlane:
    """Raises `NewerSchema`."""
    plane = request.app.state.plane
    assert isinstance(plane, ControlPlane)
    await require_known_schema(plane)
    return plane


_bearer = HTTPBearer(auto_error=False)


async def authenticated(
    request: Request,
    credentials: HTTPAuthorizationCredentials | None = Depends(_bearer),  # noqa: B008
) -> Principal:
    """Who asks. Raises `Unauthorized` and `RateLimited`."""
    if credentials is None:
        raise Unauthorized(
            "The request carries no bearer token.", "Send `Authorization: Bearer TOKEN`."
        )
    state = request.app.state
    with state.rates.guessing(request):
        principal = await principal_of(state.plane, state.authenticators, credentials.credentials)
    state.rates.admit(principal)
    request.state.principal = principal
    return principal


Caller = Annotated[Principal, Depends(authenticated)]


async def _plane_of_caller(request: Request, caller: Caller) -> ControlPlane:
    plane = await control_plane(request)
    if request.method in ("GET", "HEAD"):
        return plane.of(caller)
    return plane.changed_by(caller, request.scope["route"].name, traceparent())


async def _plane_of_worker(request: Request, caller: Caller) -> ControlPlane:
    """What workers tell stands in the history of jobs, and not in the audit log."""
    caller.require(Permission.WORK)
    return (await control_plane(request)).of(caller)


StoredPlane = Annotated[ControlPlane, Depends(control_plane)]
"""For content, which is named by its digest and so is nobody's."""

Plane = Annotated[ControlPlane, Depends(_plane_of_caller)]
WorkerPlane = Annotated[ControlPlane, Depends(_plane_of_worker)]


def allowed(permission: Permission) -> Any:
    """For what is of no project: who has the permission everywhere."""

    async def check(caller: Caller) -> None:
        caller.require(permission)

    return Depends(check)


def allowed_anywhere(*permissions: Permission) -> Any:
    """For what is of no project: who has one of the permissions in some project."""

    async def check(caller: Caller) -> None:
        if not any(caller.may_anywhere(each) for each in permissions):
            caller.require_anywhere(permissions[0])

    return Depends(check)


def in_project(permission: Permission) -> Any:
    """For what is of the project that the path names."""

    async def check(caller: Caller, project: Annotated[Scope, Path()]) -> None:
        caller.require(permission, project)

    return Depends(check)


GivenId = Annotated[str, Path(max_length=100, description="Id, or its beginning.")]


def _id_of(collection: Collection[Job] | Collection[Experiment], permission: Permission) -> Any:
    """The whole id of what the caller may read, change or operate. Raises as `Principal` does."""
    kind = collection.name.removesuffix("s")

    async def resolved(plane: Plane, caller: Caller, id: GivenId) -> str:
        whole = await resolve(plane, collection.name, id)
        needed = Permission.READ if permission is Permission.READ else Permission.OPERATE
        if caller.may(needed):
            return whole
        found = (await collection.get(plane.store, whole)).item
        caller.require_sight(kind, whole, found.project)
        if permission is Permission.WRITE:
            caller.require_change(kind, whole, found.project, found.creator)
        else:
            caller.require(permission, found.project)
        return whole

    return Depends(resolved)


def signed(caller: Principal, body: Signed) -> Signed:
    """The request in the caller's own name; the owner says himself who he is."""
    field = "creator" if "creator" in type(body).model_fields else "by"
    return body if caller.owner else body.evolve(**{field: caller.name})


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


ExperimentId = Annotated[str, _id_of(EXPERIMENTS, Permission.READ)]
OwnExperimentId = Annotated[str, _id_of(EXPERIMENTS, Permission.WRITE)]
JobId = Annotated[str, _id_of(JOBS, Permission.READ)]
OwnJobId = Annotated[str, _id_of(JOBS, Permission.WRITE)]
OperatedJobId = Annotated[str, _id_of(JOBS, Permission.OPERATE)]
ProjectName = Annotated[Slug, Path()]
ProjectScope = Annotated[Scope, Path(description="A project, or * for everywhere.")]
SessionId = Annotated[str, Path(pattern="^[a-z2-7]{16}$")]
Name = Annotated[Slug, Path()]
IdempotencyKey = Annotated[str, Depends(_idempotency_key)]
Limit = Annotated[int, Query(ge=1, le=400, description="Items in a page.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="From the page before.")]
Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for something new.")
]
