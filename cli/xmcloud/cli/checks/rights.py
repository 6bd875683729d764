"""Who the control plane takes one for, and what that one may do there."""

from collections.abc import Iterator, Mapping

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.line import Line
from xmcloud.core.base import Model
from xmcloud.core.errors import NotFound, XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT, EVERYWHERE, Permission, Principal, Role
from xmcloud.core.member_protocol import Me, Projects
from xmcloud.core.protocol import Queues
from xmcloud.xm_cloud.places import current_project


class _Ready(Model):
    """It answers, and so do store, queue and blobs."""


def caller(line: Line) -> Principal:
    """Raises `Unauthorized`. Before there were roles, everybody was an admin."""
    try:
        me = line.get(Me, "/v1/me")
    except NotFound:
        line.get(Queues, "/v1/queues")
        return Principal.owning()
    return Principal(me.name, me.roles)


def rights_checks(line: Line, me: Principal, environ: Mapping[str, str]) -> Iterator[Check]:
    """Who that is, and what he may do."""
    yield Check.ok("You", f"{me.name}, {_told(me.roles)}")
    project = current_project(environ) or DEFAULT_PROJECT
    try:
        there = [each.name for each in line.get(Projects, "/v1/projects").projects]
    except NotFound:
        there = [project]
    yield project_check(me, project, there)
    yield _services(line)


def _told(roles: Mapping[str, Role]) -> str:
    places = [
        f"{role} {'everywhere' if scope == EVERYWHERE else f'in {scope}'}"
        for scope, role in sorted(roles.items())
    ]
    return ", ".join(places) or "with no role yet"


def project_check(me: Principal, project: str, there: list[str]) -> Check:
    """Whether one may launch in the project that commands mean."""
    name = "Project"
    if project not in there and me.may(Permission.READ, project):
        remedy = f"xmcloud project create {project}"
        return Check.failed(name, f"there is none that is called {project}", remedy)
    if me.may(Permission.WRITE, project):
        return Check.ok(name, f"{project}: you may launch there")
    remedy = f"An admin says: xmcloud member set {me.name} member --project {project}"
    if me.may(Permission.READ, project):
        return Check.warning(name, f"{project}: you may look there, and not launch", remedy)
    if me.may(Permission.WORK):
        return Check.ok(name, "none: a worker takes the jobs of all of them")
    return Check.failed(name, f"{project}: you have no role there", remedy)


def _services(line: Line) -> Check:
    try:
        line.get(_Ready, "/v1/ready")
    except NotFound:
        return Check.ok("Services", "not told by this version of the control plane")
    except XmcloudError as error:
        return Check.refused("Services", error)
    return Check.ok("Services", "store, queue and blobs answer")
