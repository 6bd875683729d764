"""Projects, who is what in them, and tokens of machines."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from xmcloud.core import queries
from xmcloud.core.audit import Audit
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.quotas import wake_project
from xmcloud.core.control.updating import there, update
from xmcloud.core.documents import AUDIT, MEMBERS, PROJECTS, TOKENS
from xmcloud.core.errors import AlreadyExists, InvalidInput, NotFound, Unauthorized
from xmcloud.core.identity import (
    DEFAULT_PROJECT,
    EVERYWHERE,
    ApiToken,
    Member,
    Permission,
    Principal,
    Project,
    Role,
    new_secret,
    split_token,
)
from xmcloud.core.member_protocol import (
    EditProject,
    Members,
    NewToken,
    Projects,
    TokenMade,
    Tokens,
    TokenStatus,
)
from xmcloud.core.ports import PreconditionFailed, Query

_ALWAYS = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY = 500
"""Projects, members and tokens in a list."""


async def load_project(plane: ControlPlane, name: str) -> Project:
    """The default one is there from the beginning. Raises `NotFound`."""
    (found,) = await PROJECTS.get_many(plane.store, [name])
    return _known(found.item if found else None, name)


def _known(project: Project | None, name: str) -> Project:
    if project is None and name == DEFAULT_PROJECT:
        return Project(name=name, created_at=_ALWAYS)
    return there(project, NotFound("project", name, f"Make it: xmcloud project create {name}"))


async def list_projects(plane: ControlPlane) -> Projects:
    """Those that the caller may read, by name."""
    page, _ = await PROJECTS.find(plane.store, queries.projects().page(_EVERY, None))
    found = {stored.item.name: stored.item for stored in page}
    found.setdefault(DEFAULT_PROJECT, _known(None, DEFAULT_PROJECT))
    return Projects(
        projects=[found[name] for name in sorted(found) if plane.caller.may(Permission.READ, name)]
    )


async def create_project(plane: ControlPlane, name: str) -> Project:
    """Raises `AlreadyExists`."""
    project = Project(name=name, created_at=plane.clock.now())
    if name == DEFAULT_PROJECT:
        raise AlreadyExists("project", name)
    try:
        await plane.store.commit([PROJECTS.create(project)])
    except PreconditionFailed:
        raise AlreadyExists("project", name) from None
    return project


async def edit_project(plane: ControlPlane, name: str, request: EditProject) -> Project:
    """Sets quotas; what a higher one lets through starts at once. Raises `NotFound`."""
    changes = {field: getattr(request, field) for field in request.model_fields_set}
    changes = {field: value for field, value in changes.items() if value is not None}
    edited = await update(
        plane, PROJECTS, name, lambda project: _known(project, name).evolve(**changes)
    )
    plane.quotas.forget()
    await wake_project(plane, name)
    return edited


async def list_members(plane: ControlPlane, project: str) -> Members:
    """Those with a role in the project or everywhere; of EVERYWHERE, those that are so there."""
    page, _ = await MEMBERS.find(plane.store, queries.members().page(_EVERY, None))
    return Members(
        members=[
            stored.item
            for stored in page
            if project in stored.item.roles or EVERYWHERE in stored.item.roles
        ]
    )


async def set_role(plane: ControlPlane, project: str, name: str, role: Role | None) -> Member:
    """In a project, or EVERYWHERE. Raises `InvalidInput` for a worker in one, and `NotFound`."""
    await _check_scope(plane, project, role)

    def decide(there: Member | None) -> Member:
        member = there or Member(name=name)
        roles = {scope: each for scope, each in member.roles.items() if scope != project}
        if role is not None:
            roles[project] = role
        return member.evolve(roles=roles)

    return await update(plane, MEMBERS, name, decide)


async def member_principal(
    plane: ControlPlane, name: str, admins: Collection[str] = ()
) -> Principal:
    """Somebody whose name was verified, with his roles; `admins` need no entry."""
    (stored,) = await MEMBERS.get_many(plane.store, [name])
    roles = dict(stored.item.roles) if stored else {}
    if name in admins:
        roles[EVERYWHERE] = Role.ADMIN
    return Principal(name, roles)


async def _check_scope(plane: ControlPlane, project: str, role: Role | None) -> None:
    if project != EVERYWHERE:
        await load_project(plane, project)
    if role is Role.WORKER and project != EVERYWHERE:
        raise InvalidInput("project", project, "* for the role worker: workers are of no project")


async def create_token(plane: ControlPlane, project: str, request: NewToken) -> TokenMade:
    """The only time that its secret is told. Raises `InvalidInput` and `NotFound`."""
    await _check_scope(plane, project, request.role)
    id, whole, digest = new_secret()
    now = plane.clock.now()
    token = ApiToken(
        id=id,
        name=request.name,
        project=project,
        role=request.role,
        digest=digest,
        created_by=plane.caller.name,
        created_at=now,
        expires_at=now + timedelta(days=request.days),
    )
    await plane.store.commit([TOKENS.create(token)])
    return TokenMade(token=whole, about=TokenStatus.of(token))


async def list_tokens(plane: ControlPlane, project: str) -> Tokens:
    """Of a project, or of EVERYWHERE alone; the newest first."""
    page, _ = await TOKENS.find(plane.store, queries.tokens_of(project).page(_EVERY, None))
    return Tokens(tokens=[TokenStatus.of(stored.item) for stored in page])


async def load_token(plane: ControlPlane, id: str) -> ApiToken:
    """Raises `NotFound`."""
    return (await TOKENS.get(plane.store, id)).item


async def revoke_token(plane: ControlPlane, id: str) -> TokenStatus:
    """It opens nothing from now on; again, it does nothing. Raises `NotFound`."""

    def decide(token: ApiToken | None) -> ApiToken:
        token = there(token, NotFound("token", id))
        return token if token.revoked_at else token.evolve(revoked_at=plane.clock.now())

    return TokenStatus.of(await update(plane, TOKENS, id, decide))


async def token_principal(plane: ControlPlane, token: str) -> Principal | None:
    """Whom an API token stands for; None of what is none. Raises `Unauthorized`."""
    parts = split_token(token)
    if parts is None:
        return None
    (stored,) = await TOKENS.get_many(plane.store, [parts[0]])
    if stored is None or not stored.item.opened_by(parts[1]):
        raise Unauthorized("This API token is not known here.", "Make one: xmcloud token create")
    if stored.item.revoked_at is not None:
        raise Unauthorized("This API token was revoked.", "Make one: xmcloud token create")
    if plane.clock.now() >= stored.item.expires_at:
        raise Unauthorized("This API token has expired.", "Make one: xmcloud token create")
    return stored.item.principal


async def read_audit(plane: ControlPlane, query: Query) -> Audit:
    page, cursor = await AUDIT.find(plane.store, query)
    return Audit(entries=[stored.item for stored in page], cursor=cursor)
