"""Which index a query needs, and which ones are declared.

The declarations are Firestore's own file format, read by Terraform, by the Firestore adapter and
by the SQLite adapter, which builds its indexes from them. Rules: Firestore's "Index types" page:
equality filters alone are served by the automatic single-field indexes; an order over more than
one field needs a composite index; a range is on the field that orders first.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from xmcloud.core.ports import Direction, Query


@dataclass(frozen=True, slots=True)
class Index:
    """A composite index: the fields compared for equality, then those that order."""

    collection: str
    fields: tuple[tuple[str, Direction], ...]

    def serves(self, query: Query) -> bool:
        equal = {f.field for f in query.where if f.operator == "=="}
        head, tail = self.fields[: len(equal)], self.fields[len(equal) :]
        return (
            self.collection == query.collection
            and {name for name, _ in head} == equal
            and tail == query.order
        )


class UndeclaredIndex(Exception):
    """A query needs a composite index that `firestore.indexes.json` does not declare."""


def _declarations() -> Any:
    return json.loads((files("xmcloud.core") / "firestore.indexes.json").read_text("utf-8"))


@cache
def time_to_live(collection: str) -> str:
    """The field at whose time Firestore deletes a document of the collection; '' for never."""
    fields = [
        override["fieldPath"]
        for override in _declarations()["fieldOverrides"]
        if override["collectionGroup"] == collection and override.get("ttl")
    ]
    return fields[0] if fields else ""


@cache
def declared() -> tuple[Index, ...]:
    """The composite indexes of `firestore.indexes.json`."""
    return tuple(
        Index(
            entry["collectionGroup"],
            tuple(
                (f["fieldPath"], "asc" if f["order"] == "ASCENDING" else "desc")
                for f in entry["fields"]
            ),
        )
        for entry in _declarations()["indexes"]
    )


@cache
def _shape_is_served(query: Query) -> bool:
    fields = {f.field for f in query.where} | {name for name, _ in query.order}
    ranged = {f.field for f in query.where if f.operator != "=="}
    if ranged and ranged != {name for name, _ in query.order[:1]}:
        return False
    if len(fields) <= 1 or not query.order:
        return True
    return any(index.serves(query) for index in declared())


def in_order_of(query: Query, field: str) -> Query:
    """The query whose index holds that field of all that matches."""
    return replace(query, order=((field, "asc"),))


def require_index(query: Query) -> None:
    """Raises `UndeclaredIndex` unless Firestore could serve the query; limits do not matter."""
    shape = Query(
        query.collection,
        tuple(type(f)(f.field, f.operator, 0) for f in query.where),
        query.order,
    )
    if not _shape_is_served(shape):
        raise UndeclaredIndex(
            f"No index in firestore.indexes.json serves {shape}; declare it there."
        )
