"""The calls about who may do what, and who did what."""

from urllib.parse import quote

from xmcloud.core.audit import Audit
from xmcloud.core.identity import Member, Project, Role
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
from xmcloud.core.usage import ProjectUsage
from xmcloud.xm_cloud.client import Client


class IdentityClient(Client):
    """A project is a name, or * for everywhere. Raises as `Client` does."""

    def me(self) -> Me:
        return self._get(Me, "/v1/me")

    def projects(self) -> Projects:
        return self._get(Projects, "/v1/projects")

    def create_project(self, new: NewProject) -> Project:
        return self._send(Project, "POST", "/v1/projects", new)

    def edit_project(self, name: str, edit: EditProject) -> Project:
        """Fields that were not set stay as they are."""
        return self._edit(Project, f"/v1/projects/{_part(name)}", edit)

    def usage(self, project: str, month: str | None = None) -> ProjectUsage:
        """What people of it run, and used in a month (2026-11), else in this one."""
        return self._get(ProjectUsage, f"/v1/projects/{_part(project)}/usage", {"month": month})

    def members(self, project: str) -> Members:
        return self._get(Members, f"/v1/projects/{_part(project)}/members")

    def set_role(self, project: str, name: str, role: Role) -> Member:
        """In place of the one he had there."""
        return self._send(Member, "PUT", _member(project, name), NewRole(role=role))

    def remove_role(self, project: str, name: str) -> Member:
        """What he has elsewhere stays."""
        return self._answer(Member, "DELETE", _member(project, name))

    def tokens(self, project: str) -> Tokens:
        return self._get(Tokens, f"/v1/projects/{_part(project)}/tokens")

    def create_token(self, project: str, new: NewToken) -> TokenMade:
        return self._send(TokenMade, "POST", f"/v1/projects/{_part(project)}/tokens", new)

    def revoke_token(self, id: str) -> TokenStatus:
        return self._answer(TokenStatus, "POST", f"/v1/tokens/{_part(id)}/revoke", body=b"{}")

    def audit(
        self,
        *,
        project: str | None = None,
        who: str | None = None,
        subject: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Audit:
        """A page, the newest first; of one of project, who and subject, or all."""
        query = {
            "project": project,
            "who": who,
            "subject": subject,
            "limit": limit,
            "cursor": cursor,
        }
        return self._get(Audit, "/v1/audit", query)


def _member(project: str, name: str) -> str:
    return f"/v1/projects/{_part(project)}/members/{_part(name)}"


def _part(name: str) -> str:
    return quote(name, safe="*") or "%20"
