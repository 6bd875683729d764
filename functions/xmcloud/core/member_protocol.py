"""What clients say about projects, members and tokens, and what the control plane answers."""

from typing import Annotated, Self

from pydantic import Field

from xmcloud.core.base import Model, Time
from xmcloud.core.identity import ApiToken, Member, Project, Quota, Role, Scope
from xmcloud.core.names import Id, Slug, Title


class Me(Model):
    """Who the API takes the caller for."""

    name: Title
    roles: dict[Scope, Role]


class Projects(Model):
    """Those that the caller may read."""

    projects: list[Project]


class EditProject(Model):
    """Fields that are absent stay as they are."""

    quota: Quota | None = None
    person_quota: Quota | None = None


class Members(Model):
    """Who is what, by name."""

    members: list[Member]


class NewProject(Model):
    """A project to be made."""

    name: Slug


class NewRole(Model):
    """What somebody is to be."""

    role: Role


class NewToken(Model):
    """A token to be made for a machine."""

    name: Annotated[Title, Field(max_length=100)]
    role: Role = Field(description="A worker's token is good everywhere: its project is *.")
    days: Annotated[int, Field(ge=1, le=3650)] = 90


class TokenStatus(Model):
    """What is told of a token."""

    id: Id
    name: Title
    project: Scope
    role: Role
    created_by: Title
    created_at: Time
    expires_at: Time
    revoked_at: Time | None = None

    @classmethod
    def of(cls, token: ApiToken) -> Self:
        return cls(**token.model_dump(exclude={"digest"}))


class TokenMade(Model):
    """The only time that the whole token is told."""

    token: str
    about: TokenStatus


class Tokens(Model):
    """The newest first."""

    tokens: list[TokenStatus]
