"""/v1/me, /v1/projects, /v1/tokens and /v1/audit: who may do what, and who did what."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from xmcloud.core import queries
from xmcloud.core.audit import Audit
from xmcloud.core.control import members
from xmcloud.core.errors import InvalidInput
from xmcloud.core.identity import EVERYWHERE, Member, MemberName, Permission, Project
from xmcloud.core.member_protocol import (
    EditProject,
    Me,
    Members,
    NewProject,
    NewRole,
    NewToken,
    Projects,
    TokenMade,
    Tokens,
    TokenStatus,
)
from xmcloud.core.names import Slug
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Caller,
    Cursor,
    Limit,
    Plane,
    ProjectName,
    ProjectScope,
    allowed,
    answer,
    in_project,
)

router = APIRouter(tags=["projects"])

TokenId = Annotated[str, Path(pattern="^[a-z2-7]{16}$")]
PersonName = Annotated[MemberName, Path(description="An e-mail address.")]
_OF_ADMINS = [in_project(Permission.ADMINISTER)]


@router.get("/me", response_model=Me)
async def whoami(caller: Caller) -> Response:
    """Who asks, and his roles."""
    return answer(Me(name=caller.name, roles=dict(caller.roles)))


@router.get("/projects", response_model=Projects)
async def list_projects(plane: Plane) -> Response:
    """Those that the caller may read."""
    return answer(await members.list_projects(plane))


@router.post(
    "/projects",
    status_code=201,
    response_model=Project,
    dependencies=[allowed(Permission.ADMINISTER)],
)
async def create_project(
    plane: Plane, body: Annotated[NewProject, examples.NEW_PROJECT]
) -> Response:
    """Makes a namespace of experiments, with members of its own."""
    return answer(await members.create_project(plane, body.name), 201)


@router.patch("/projects/{project}", response_model=Project, dependencies=_OF_ADMINS)
async def edit_project(
    plane: Plane,
    caller: Caller,
    project: ProjectName,
    body: Annotated[EditProject, examples.EDIT_PROJECT],
) -> Response:
    """Sets quotas; that of the whole project is for admins of everything."""
    if body.quota is not None:
        caller.require(Permission.ADMINISTER)
    return answer(await members.edit_project(plane, project, body))


@router.get(
    "/projects/{project}/members",
    response_model=Members,
    dependencies=[in_project(Permission.READ)],
)
async def list_members(plane: Plane, project: ProjectScope) -> Response:
    """Who has a role in the project, or everywhere."""
    return answer(await members.list_members(plane, project))


@router.put("/projects/{project}/members/{name}", response_model=Member, dependencies=_OF_ADMINS)
async def set_role(
    plane: Plane,
    project: ProjectScope,
    name: PersonName,
    body: Annotated[NewRole, examples.NEW_ROLE],
) -> Response:
    """Gives somebody a role in the project, in place of the one he had there."""
    return answer(await members.set_role(plane, project, name, body.role))


@router.delete("/projects/{project}/members/{name}", response_model=Member, dependencies=_OF_ADMINS)
async def remove_role(plane: Plane, project: ProjectScope, name: PersonName) -> Response:
    """Takes his role in the project away; what he has elsewhere stays."""
    return answer(await members.set_role(plane, project, name, None))


@router.get("/projects/{project}/tokens", response_model=Tokens, dependencies=_OF_ADMINS)
async def list_tokens(plane: Plane, project: ProjectScope) -> Response:
    """The tokens of machines, without their secrets; the newest first."""
    return answer(await members.list_tokens(plane, project))


@router.post(
    "/projects/{project}/tokens",
    status_code=201,
    response_model=TokenMade,
    dependencies=_OF_ADMINS,
)
async def create_token(
    plane: Plane, project: ProjectScope, body: Annotated[NewToken, examples.NEW_TOKEN]
) -> Response:
    """Makes a token for a machine. It is told in this answer, and never again."""
    return answer(await members.create_token(plane, project, body), 201)


@router.post("/tokens/{id}/revoke", response_model=TokenStatus)
async def revoke_token(plane: Plane, caller: Caller, id: TokenId) -> Response:
    """It opens nothing any more."""
    token = await members.load_token(plane, id)
    caller.require(Permission.ADMINISTER, token.project)
    return answer(await members.revoke_token(plane, id))


@router.get("/audit", response_model=Audit)
async def read_audit(
    plane: Plane,
    caller: Caller,
    project: Annotated[Slug | None, Query(description="What was changed in it.")] = None,
    who: Annotated[str | None, Query(max_length=300, description="What he changed.")] = None,
    subject: Annotated[
        str | None, Query(max_length=300, description="COLLECTION/ID: what changed of it.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Who changed what, the newest first; all, or by one of the three."""
    asked = {"project": project, "who": who, "subject": subject}
    given = [name for name, value in asked.items() if value]
    if len(given) > 1:
        raise InvalidInput("query", " and ".join(given), "one of project, who and subject")
    caller.require(Permission.ADMINISTER, project or EVERYWHERE)
    if project:
        query = queries.audit_of(project)
    elif who:
        query = queries.audit_by(who)
    else:
        query = queries.audit_about(subject) if subject else queries.audit()
    return answer(await members.read_audit(plane, query.page(limit, cursor)))
