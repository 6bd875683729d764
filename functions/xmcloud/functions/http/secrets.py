"""/v1/projects/{project}/secrets, and the one route that tells values: to workers."""

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from xmcloud.core.control import secrets
from xmcloud.core.identity import Permission
from xmcloud.core.secrets import NewSecret, ResolvedSecrets, SecretList, SecretStatus
from xmcloud.core.worker_protocol import AttemptRef
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Name,
    Plane,
    ProjectName,
    SessionId,
    WorkerPlane,
    answer,
    in_project,
)

router = APIRouter(tags=["secrets"])

_OF_OPERATORS = [in_project(Permission.OPERATE)]


@router.get(
    "/projects/{project}/secrets",
    response_model=SecretList,
    dependencies=[in_project(Permission.READ)],
)
async def list_secrets(plane: Plane, project: ProjectName) -> Response:
    """Names, and who set them when. No route tells a person a value."""
    return answer(await secrets.list_secrets(plane, project))


@router.put(
    "/projects/{project}/secrets/{name}", response_model=SecretStatus, dependencies=_OF_OPERATORS
)
async def set_secret(
    plane: Plane, project: ProjectName, name: Name, body: Annotated[NewSecret, examples.NEW_SECRET]
) -> Response:
    """Keeps a value, in place of an earlier one."""
    return answer(await secrets.set_secret(plane, project, name, body))


@router.delete(
    "/projects/{project}/secrets/{name}", response_model=SecretStatus, dependencies=_OF_OPERATORS
)
async def remove_secret(plane: Plane, project: ProjectName, name: Name) -> Response:
    """Forgets a value. Jobs that name it fail when they start."""
    return answer(await secrets.remove_secret(plane, project, name))


@router.post("/sessions/{id}/secrets", response_model=ResolvedSecrets, tags=["workers"])
async def resolve_secrets(
    plane: WorkerPlane, id: SessionId, body: Annotated[AttemptRef, examples.HELD_ATTEMPT]
) -> Response:
    """What the job of an attempt that this session holds right now gets in its environment."""
    found = await secrets.resolve_secrets(plane, id, body)
    return answer(found)
