"""What people changed: who, when, by which request, and each document before and after."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, JsonValue

from xmcloud.core.base import Model, Time
from xmcloud.core.names import Id

ENTRY_BYTES = 64 * 1024
"""Of the changes in one entry; what goes beyond is counted."""

VALUE_BYTES = 1000
"""Of one value; a longer one is told by its digest."""

UNTOLD = frozenset({"updated_at"})
"""Fields of which the entry itself says as much."""

HIDDEN = frozenset({"digest"})
"""Fields that are told by nothing but their change."""


class Change(Model):
    """One document: the fields that differ, and `field.field` of objects, before and after."""

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
    """What differs, to the field of a field; of a new document, all that is not empty."""
    if before is None:
        told = {name: value for name, value in after.items() if value not in (None, [], {}, "")}
        return Change(document=document, before=None, after=_shortened(told))
    differing = list(_differing("", before, after))
    return Change(
        document=document,
        before=_shortened({name: old for name, old, _ in differing}),
        after=_shortened({name: new for name, _, new in differing}),
    )


def _differing(
    prefix: str, before: dict[str, JsonValue], after: dict[str, JsonValue]
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    for name in {**after, **before}:
        old, new = before.get(name), after.get(name)
        if name in UNTOLD:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differing(f"{prefix}{name}.", old, new)
        elif old != new:
            yield f"{prefix}{name}", old, new


def _shortened(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: _short(name, value) for name, value in fields.items()}


def _short(name: str, value: JsonValue) -> JsonValue:
    if name in HIDDEN:
        return "(hidden)"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= VALUE_BYTES:
        return value
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"({len(text)} characters, SHA-256 {digest})"
