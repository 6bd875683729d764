"""A store that keeps, with each change, who made it."""

import json
from collections.abc import Sequence
from typing import cast

from xmcloud.core.audit import ENTRY_BYTES, AuditEntry, Change, change
from xmcloud.core.concurrency import for_each
from xmcloud.core.documents import AUDIT, JOBS
from xmcloud.core.errors import TooLarge
from xmcloud.core.names import random_id
from xmcloud.core.ports import (
    WRITES_LIMIT,
    Clock,
    Document,
    JsonObject,
    Page,
    PreconditionFailed,
    Query,
    Store,
    Version,
    Write,
)

_NOTED = frozenset({"waiting.permit_due_at"})
"""When nothing else of a job changes, the control plane noted that its permit went out."""


class AuditedStore:
    """Adds an entry of the audit log to every commit: both are there, or neither.

    Made for one request; it remembers what the request read, to tell what was before. A commit
    may have one write less than `WRITES_LIMIT`.
    """

    def __init__(self, store: Store, who: str, action: str, clock: Clock, trace: str = "") -> None:
        self._store, self._who, self._action, self._trace = store, who, action, trace
        self._clock = clock
        self._read: dict[tuple[str, str, Version], JsonObject] = {}

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        found = await self._store.get(collection, ids)
        self._remember(collection, [each for each in found if each is not None])
        return found

    async def find(self, query: Query) -> Page:
        page = await self._store.find(query)
        self._remember(query.collection, page.documents)
        return page

    async def count(self, query: Query) -> int:
        return await self._store.count(query)

    async def total(self, query: Query, field: str) -> float:
        return await self._store.total(query, field)

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        entry = self._entry(writes)
        if entry is None:
            versions = await self._store.commit(writes)
        else:
            versions = (await self._store.commit([*writes, entry]))[:-1]
        self._wrote(writes, versions)
        return versions

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        """In one commit when all of them hold, else each by itself, with its own entry."""
        if self._entry(writes) is None:
            versions = await self._store.apply(writes)
            self._wrote(writes, versions)
            return versions
        if len(writes) < WRITES_LIMIT:
            try:
                return list(await self.commit(writes))
            except (PreconditionFailed, TooLarge):
                pass
        applied: dict[int, Version] = {}

        async def alone(place: tuple[int, Write]) -> None:
            try:
                (applied[place[0]],) = await self.commit([place[1]])
            except PreconditionFailed:
                return

        await for_each(enumerate(writes), alone)
        return [applied.get(index) for index in range(len(writes))]

    async def close(self) -> None:
        await self._store.close()

    def _remember(self, collection: str, documents: Sequence[Document]) -> None:
        for found in documents:
            self._read[collection, found.id, found.version] = found.data

    def _wrote(self, writes: Sequence[Write], versions: Sequence[Version | None]) -> None:
        for write, version in zip(writes, versions, strict=True):
            if version is not None:
                self._read[write.collection, write.id, version] = write.data

    def _entry(self, writes: Sequence[Write]) -> Write | None:
        """None when the writes are the control plane's own bookkeeping."""
        changes: list[Change] = []
        size = left_out = 0
        project = ""
        for write in writes:
            after = _fields(write.data)
            project = project or str(after.get("project") or "")
            if size > ENTRY_BYTES:
                left_out += 1
                continue
            found = self._change(write, after)
            if write.collection == JOBS.name and found.before and found.after.keys() <= _NOTED:
                continue
            changes.append(found)
            size += len(found.model_dump_json())
        if not changes:
            return None
        return AUDIT.create(
            AuditEntry(
                id=random_id(),
                at=self._clock.now(),
                who=self._who,
                action=self._action,
                project=project,
                subject=changes[0].document,
                changes=tuple(changes),
                left_out=left_out,
                trace=self._trace,
            )
        )

    def _change(self, write: Write, after: JsonObject) -> Change:
        before = None
        if write.version is not None:
            before = _fields(self._read.get((write.collection, write.id, write.version), {}))
        return change(f"{write.collection}/{write.id}", before, after)


def _fields(data: JsonObject) -> JsonObject:
    """Of the model; the rest of a document repeats some of them for queries."""
    return cast(JsonObject, json.loads(str(data.get("body", "{}"))))
