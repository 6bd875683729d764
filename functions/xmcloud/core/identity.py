"""Who asks, and what that one may do."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hmac import compare_digest
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

from xmcloud.core.base import Model, Time
from xmcloud.core.errors import Forbidden, NotFound
from xmcloud.core.names import Digest, Id, Slug, Title, random_id

DEFAULT_PROJECT = "default"
EVERYWHERE: Literal["*"] = "*"
"""In place of a project: all of them, and what belongs to none, as queues and workers do."""

Scope = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)$")]
"""A project, or everywhere."""


class Permission(StrEnum):
    """What a role allows. Queues, workers, targets and builds are of no project."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    ADMINISTER = "administer"
    WORK = "work"


class Role(StrEnum):
    """What somebody is in a project, or everywhere.

    A viewer reads. A member launches, and changes what is his. An operator changes what is of
    others, orders queues and workers, and runs workers; an admin decides who is what. A worker
    takes jobs, and touches those that it holds the lease of.
    """

    VIEWER = "viewer"
    MEMBER = "member"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"

    @property
    def permissions(self) -> frozenset[Permission]:
        return _PERMISSIONS[self]


_PERMISSIONS = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.MEMBER: frozenset({Permission.READ, Permission.WRITE}),
    Role.OPERATOR: frozenset(
        {Permission.READ, Permission.WRITE, Permission.OPERATE, Permission.WORK}
    ),
    Role.ADMIN: frozenset(Permission),
    Role.WORKER: frozenset({Permission.WORK}),
}

Signed = TypeVar("Signed", bound=Model)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whose token was verified.

    `roles` are by project, with those of EVERYWHERE. The owner of an embedded control plane is
    whoever can read its token, and says himself who he is.
    """

    name: str
    roles: Mapping[str, Role] = field(default_factory=dict)
    owner: bool = False

    @classmethod
    def owning(cls) -> Self:
        return cls("owner", {EVERYWHERE: Role.ADMIN}, owner=True)

    def may(self, permission: Permission, project: str = EVERYWHERE) -> bool:
        return any(
            permission in self.roles[place].permissions
            for place in {project, EVERYWHERE}
            if place in self.roles
        )

    def may_anywhere(self, permission: Permission) -> bool:
        """In some project, for what belongs to none but is of use to all."""
        return any(permission in role.permissions for role in self.roles.values())

    def may_change(self, project: str, creator: str) -> bool:
        """What is his own, or anybody's if he operates the project."""
        own = creator == self.name and self.may(Permission.WRITE, project)
        return own or self.may(Permission.OPERATE, project)

    def require(self, permission: Permission, project: str = EVERYWHERE) -> None:
        """Raises `Forbidden`."""
        if not self.may(permission, project):
            raise Forbidden(self.name, permission, project)

    def require_anywhere(self, permission: Permission) -> None:
        """Raises `Forbidden`."""
        if not self.may_anywhere(permission):
            raise Forbidden(self.name, permission, "")

    def require_change(self, kind: str, id: str, project: str, creator: str) -> None:
        """Raises `NotFound` for what he may not even see, else `Forbidden`."""
        self.require_sight(kind, id, project)
        if not self.may_change(project, creator):
            permission = (
                Permission.OPERATE if self.may(Permission.WRITE, project) else Permission.WRITE
            )
            raise Forbidden(self.name, permission, project)

    def require_sight(self, kind: str, id: str, project: str) -> None:
        """Raises `NotFound`: what is not his to see is not told from what is not there."""
        if not self.may(Permission.READ, project):
            raise NotFound(kind, id)


MemberName = Annotated[
    str,
    StringConstraints(to_lower=True, pattern=r"(?i)^[a-z0-9][a-z0-9._%+@:-]{0,199}$"),
]
"""An e-mail address, of a person or a service account; of no case."""


class Quota(Model):
    """How much there may be at a time, and in a month of UTC; null is without limit."""

    running: Annotated[int, Field(ge=0)] | None = Field(None, description="Jobs that run.")
    queued: Annotated[int, Field(ge=0)] | None = Field(None, description="Jobs that wait.")
    gpu_hours: Annotated[float, Field(ge=0)] | None = Field(None, description="In a month.")


class Project(Model):
    """A namespace of experiments and secrets, with members of its own."""

    name: Slug
    quota: Quota = Field(Quota(), description="Of all its jobs together.")
    person_quota: Quota = Field(Quota(), description="Of the jobs of each person.")
    created_at: Time


class Member(Model):
    """What somebody is, by project or everywhere ('*')."""

    name: MemberName
    roles: dict[Scope, Role] = {}


def _one_line(text: str) -> str:
    if text != text.strip():
        raise ValueError("must not begin or end with a blank")
    return text


_TOKEN = re.compile(r"xmc_(?P<id>[a-z2-7]{16})_(?P<secret>[A-Za-z0-9_-]{43})")


class ApiToken(Model):
    """A token of a machine. Only the digest of its secret is kept."""

    id: Id
    name: Annotated[Title, Field(max_length=100), AfterValidator(_one_line)]
    project: Scope
    role: Role
    digest: Digest
    created_by: Title
    created_at: Time
    expires_at: Time
    revoked_at: Time | None = None

    @property
    def principal(self) -> Principal:
        return Principal(f"token:{self.name}", {self.project: self.role})

    def opened_by(self, secret: str) -> bool:
        return compare_digest(self.digest.encode(), _digest(secret).encode())


def new_secret() -> tuple[str, str, str]:
    """An id, the whole token to hand out, and the digest to keep."""
    id, secret = random_id(), secrets.token_urlsafe(32)
    return id, f"xmc_{id}_{secret}", _digest(secret)


def split_token(token: str) -> tuple[str, str] | None:
    """The id and the secret; None of what is no API token."""
    found = _TOKEN.fullmatch(token)
    return (found["id"], found["secret"]) if found else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
