"""What people changed: who, when, by which request, and each document before and after."""

import hashlib
import json
from typing import Annotated

from pydantic import Field, JsonValue

from xmcloud.core.base import Model, Time
from xmcloud.core.names import Id

ENTRY_BYTES = 64 * 1024
"""Of the changes in one entry; what goes beyond is counted."""

VALUE_BYTES = 1000
"""Of one value; a longer one is told by its digest."""

HIDDEN = frozenset({"digest"})
"""Fields that are told by nothing but their change."""


class Change(Model):
    """One document: the fields that differ, as they were and as they are."""

    document: str = Field(description="COLLECTION/ID")
    before: dict[str, JsonValue] | None = Field(description="Null: it was not there.")
    after: dict[str, JsonValue]


class AuditEntry(Model):
    """One change, kept in the same commit as what it tells of."""

    id: Id
    at: Time
    who: str
    action: str = Field(description="The request, by its name in the API.")
    project: str = ""
    subject: str = Field(description="COLLECTION/ID of what was changed in the first place.")
    changes: tuple[Change, ...]
    left_out: Annotated[int, Field(ge=0)] = Field(0, description="Further documents.")
    trace: str = ""


class Audit(Model):
    """A page of entries, the newest first."""

    entries: list[AuditEntry]
    cursor: str | None = None


def change(
    document: str, before: dict[str, JsonValue] | None, after: dict[str, JsonValue]
) -> Change:
    """What differs; of a new document, all that is not empty."""
    old = before or {}
    fields = [name for name, value in after.items() if value != old.get(name)]
    told = [name for name in fields if before is not None or after[name] not in (None, [], {}, "")]
    return Change(
        document=document,
        before=None if before is None else {name: _short(name, old.get(name)) for name in told},
        after={name: _short(name, after[name]) for name in told},
    )


def _short(name: str, value: JsonValue) -> JsonValue:
    if name in HIDDEN:
        return "(hidden)"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= VALUE_BYTES:
        return value
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"({len(text)} characters, SHA-256 {digest})"
