"""Roles, projects, members, tokens and audited changes as people read them."""

import json
from collections.abc import Mapping
from datetime import datetime

from pydantic import JsonValue

from xmcloud.cli.rows import instant
from xmcloud.cli.tables import Cell
from xmcloud.core.audit import AuditEntry, Change
from xmcloud.core.identity import EVERYWHERE, Member, Project, Quota
from xmcloud.core.member_protocol import TokenStatus

PROJECTS = ("name", "quota", "of a person")
MEMBERS = ("name", "role", "where")
TOKENS = ("id", "name", "role", "where", "state", "made by", "expires")
AUDIT = ("when", "who", "action", "what")

_VALUE = 40
_FIELDS = 4


def roles(by_project: Mapping[str, str]) -> str:
    """`admin everywhere, member in vision`."""
    return ", ".join(f"{role} {place(scope)}" for scope, role in sorted(by_project.items()))


def place(scope: str) -> str:
    return "everywhere" if scope == EVERYWHERE else f"in {scope}"


def project_row(project: Project) -> list[Cell]:
    return [project.name, quota(project.quota), quota(project.person_quota)]


def quota(limits: Quota) -> str:
    told = [
        f"{value:g} {name}"
        for name, value in (
            ("running", limits.running),
            ("queued", limits.queued),
            ("GPU hours a month", limits.gpu_hours),
        )
        if value is not None
    ]
    return ", ".join(told) or "no limit"


def member_rows(member: Member, project: str) -> list[list[Cell]]:
    """A row for each role that counts there."""
    return [
        [member.name, role, place(scope)]
        for scope, role in sorted(member.roles.items())
        if scope in (project, EVERYWHERE)
    ]


def token_row(token: TokenStatus, now: datetime) -> list[Cell]:
    state = "revoked" if token.revoked_at else "expired" if now >= token.expires_at else "good"
    where, until = place(token.project), f"{token.expires_at:%Y-%m-%d}"
    return [token.id, token.name, token.role, where, state, token.created_by, until]


def audit_row(entry: AuditEntry, now: datetime) -> list[Cell]:
    action = entry.action.replace("_", " ")
    return [instant(entry.at, now), entry.who, action, what(entry)]


def what(entry: AuditEntry) -> str:
    """The first document with its changes, and how many more there are."""
    if not entry.changes:
        return entry.subject
    first = next((each for each in entry.changes if each.document == entry.subject), None)
    told = _change(first or entry.changes[0])
    more = len(entry.changes) - 1 + entry.left_out
    return f"{told}; and {more} more" if more else told


def _change(change: Change) -> str:
    if change.before is None:
        return f"{change.document}: new"
    fields = [
        f"{name} {_brief(change.before.get(name))} -> {_brief(value)}"
        for name, value in change.after.items()
    ]
    more = f", and {len(fields) - _FIELDS} more" if len(fields) > _FIELDS else ""
    return f"{change.document}: {', '.join(fields[:_FIELDS])}{more}"


def _brief(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"
