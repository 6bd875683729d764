"""The store on SQLite."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcloud.adapters import Observe, unobserved
from xmcloud.adapters.sqlite import codec, statements
from xmcloud.adapters.sqlite.database import INLINE, Database, Row
from xmcloud.adapters.sqlite.schema import Schema, checked, index_for, index_for_count
from xmcloud.core import cursors
from xmcloud.core.errors import TooLarge
from xmcloud.core.indexes import in_order_of, require_index
from xmcloud.core.ports import (
    COMMIT_LIMIT,
    WRITES_LIMIT,
    Document,
    Page,
    PreconditionFailed,
    Query,
    Version,
    Write,
)

_COUNTED_PER_READ = 1000
"""As Firestore bills them, so that operations counted here are those paid for there."""


@dataclass(frozen=True, slots=True)
class _Change:
    write: Write
    text: str

    def make(self, connection: sqlite3.Connection) -> Version | None:
        """The new version, None if the precondition does not hold."""
        table = checked(self.write.collection)
        if self.write.version is None:
            cursor = connection.execute(
                f'INSERT INTO "{table}"(id, version, data) VALUES (?, 1, ?)'  # noqa: S608
                " ON CONFLICT (id) DO NOTHING",
                (self.write.id, self.text),
            )
            return "1" if cursor.rowcount else None
        cursor = connection.execute(
            f'UPDATE "{table}" SET data = ?, version = version + 1'  # noqa: S608
            " WHERE id = ? AND version = ?",
            (self.text, self.write.id, self.write.version),
        )
        return str(int(self.write.version) + 1) if cursor.rowcount else None


class SqliteStore:
    """A `Store` in one file, synced at each commit.

    `observe` is told ("read" | "write", documents).
    """

    def __init__(self, path: Path, observe: Observe = unobserved) -> None:
        """Raises `CorruptStore`, `StorageFull` or `Unavailable`."""
        self._database = Database(path, "FULL")
        self._schema = Schema(self._database)
        self._observe = observe

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        if not ids:
            return []
        await self._schema.require_table(collection)
        self._observe("read", len(set(ids)))
        rows = await self._database.read(
            f'SELECT id, version, data FROM "{checked(collection)}"'  # noqa: S608
            " WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids), ensure_ascii=False),),
            len(ids),
        )
        found = {row[0]: self._document(row) for row in rows}
        return [found.get(id) for id in ids]

    async def find(self, query: Query) -> Page:
        require_index(query)
        index = index_for(query)
        if index is None:
            await self._schema.require_table(query.collection)
        else:
            await self._schema.require_index(index)
        rows: list[Row] = []
        for sql, values in statements.page(query):
            rows += await self._database.read(sql, values, query.limit)
            if len(rows) > query.limit:
                break
        self._observe("read", max(1, len(rows)))
        documents = [self._document(row) for row in rows[: query.limit]]
        more = len(rows) > query.limit
        return Page(documents, cursors.encode(query, documents[-1]) if more else None)

    async def count(self, query: Query) -> int:
        require_index(query)
        index = index_for_count(query)
        if index is None:
            await self._schema.require_table(query.collection)
        else:
            await self._schema.require_index(index)
        [(number,)] = await self._database.read(*statements.count(query), INLINE + 1)
        self._observe("read", max(1, -(-number // _COUNTED_PER_READ)))
        return int(number)

    async def total(self, query: Query, field: str) -> float:
        ordered = in_order_of(query, field)
        require_index(ordered)
        index = index_for(ordered)
        assert index is not None
        await self._schema.require_index(index)
        statement = statements.total(ordered, field)
        [(total, number)] = await self._database.read(*statement, INLINE + 1)
        self._observe("read", max(1, -(-number // _COUNTED_PER_READ)))
        return float(total)

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        changes = await self._changes(writes)
        size = sum(len(change.text.encode()) for change in changes)
        if size > COMMIT_LIMIT:
            raise TooLarge("A commit", size, COMMIT_LIMIT)

        def all_of_them(connection: sqlite3.Connection) -> list[Version]:
            versions = []
            for change in changes:
                version = change.make(connection)
                if version is None:
                    raise PreconditionFailed(f"{change.write.collection}/{change.write.id}")
                versions.append(version)
            return versions

        versions = await self._database.write(all_of_them, len(changes))
        self._observe("write", len(versions))
        return versions

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        changes = await self._changes(writes)
        versions = await self._database.write(
            lambda connection: [change.make(connection) for change in changes], len(changes)
        )
        self._observe("write", sum(version is not None for version in versions))
        return versions

    async def _changes(self, writes: Sequence[Write]) -> list[_Change]:
        if len(writes) > WRITES_LIMIT or len({(w.collection, w.id) for w in writes}) < len(writes):
            raise ValueError(f"at most {WRITES_LIMIT} writes, each document once")
        for collection in {write.collection for write in writes}:
            await self._schema.require_table(collection)
        return [_Change(w, codec.encode(w.collection, w.id, w.data)) for w in writes]

    def _document(self, row: Row) -> Document:
        return Document(row[0], codec.decode(self._database.path, row[2]), str(row[1]))

    async def close(self) -> None:
        await self._database.close()
