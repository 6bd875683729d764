"""Tables and indexes: one table a collection, one computed column a field that queries name.

The columns are virtual and the indexes hold them, so a process that has not met a field yet
still keeps its indexes up to date. Composite indexes are those of `firestore.indexes.json`; the
ones that Firestore has by itself are made when a query first needs them.
"""

import re
import sqlite3

from xmcloud.adapters.sqlite.database import INLINE, Database
from xmcloud.core.indexes import Index, declared
from xmcloud.core.ports import Query

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def checked(name: str) -> str:
    """A collection or field as part of an SQL identifier. Raises `ValueError`."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a lower-case name of a collection or field")
    return name


def column(field: str) -> str:
    return f"f_{checked(field)}"


def index_name(index: Index) -> str:
    fields = ",".join(f"{name} {direction}" for name, direction in index.fields)
    return f'"{index.collection}: {fields}"'


def index_for(query: Query) -> Index | None:
    """The index that serves a page of the query in its order; None for the whole by id."""
    for index in declared():
        if index.serves(query):
            return index
    return _own_index(query)


def index_for_count(query: Query) -> Index | None:
    """An index in which all that matches stands together."""
    equal, ranged = _compared(query)
    for index in declared():
        head = {name for name, _ in index.fields[: len(equal)]}
        after = {name for name, _ in index.fields[len(equal) : len(equal) + 1]}
        if index.collection == query.collection and head == equal and ranged <= after:
            return index
    return _own_index(query)


def _own_index(query: Query) -> Index | None:
    equal, ranged = _compared(query)
    order = query.order or tuple((name, "asc") for name in sorted(ranged))
    fields = (*((name, "asc") for name in sorted(equal)), *order)
    return Index(query.collection, fields) if fields else None


def _compared(query: Query) -> tuple[set[str], set[str]]:
    equal = {f.field for f in query.where if f.operator == "=="}
    return equal, {f.field for f in query.where if f.operator != "=="}


class Schema:
    """Makes what is missing, once a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables: set[str] = set()
        self._indexes: set[Index] = set()

    async def require_table(self, collection: str) -> None:
        if collection not in self._tables:
            indexes = [index for index in declared() if index.collection == collection]
            await self._database.write(lambda c: _make_table(c, collection, indexes), INLINE + 1)
            self._tables.add(collection)
            self._indexes.update(indexes)

    async def require_index(self, index: Index) -> None:
        await self.require_table(index.collection)
        if index not in self._indexes:
            await self._database.write(lambda c: _make_index(c, index), INLINE + 1)
            self._indexes.add(index)


def _make_table(connection: sqlite3.Connection, collection: str, indexes: list[Index]) -> None:
    connection.execute(
        f'CREATE TABLE IF NOT EXISTS "{checked(collection)}"'
        "(id TEXT PRIMARY KEY, version INTEGER NOT NULL, data TEXT NOT NULL)"
    )
    for index in indexes:
        _make_index(connection, index)


def _make_index(connection: sqlite3.Connection, index: Index) -> None:
    table = checked(index.collection)
    there = {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")')}
    for field, _ in index.fields:
        if column(field) not in there:
            connection.execute(f'ALTER TABLE "{table}" ADD COLUMN {_computed(field)}')
    direction = index.fields[-1][1]
    columns = ", ".join(f"{column(field)} {way}" for field, way in index.fields)
    connection.execute(
        f'CREATE INDEX IF NOT EXISTS {index_name(index)} ON "{table}"({columns}, id {direction})'
    )


def _computed(field: str) -> str:
    """Scalars only; booleans as blobs, because SQLite's own are integers."""
    return (
        f"{column(field)} GENERATED ALWAYS AS (CASE json_type(data, '$.{field}')"
        " WHEN 'true' THEN x'01' WHEN 'false' THEN x'00'"
        " WHEN 'array' THEN NULL WHEN 'object' THEN NULL"
        f" ELSE json_extract(data, '$.{field}') END) VIRTUAL"
    )
