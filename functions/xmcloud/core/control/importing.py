"""What was exported goes into an empty control plane, a piece at a time.

Each step may be repeated, so that an import that was cut short is run again.
"""

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from xmcloud.core import queries
from xmcloud.core.blobs import PART_LIMIT
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.queues import ordered_queues, wake_queue
from xmcloud.core.documents import EXPERIMENTS, JOBS, Collection, Stored
from xmcloud.core.errors import Contended, InvalidInput, NotEmpty, NotFound, TooLarge
from xmcloud.core.migrations import LATEST, Migration
from xmcloud.core.models import Job
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.transfer import (
    IMPORTS,
    REPLACED,
    Import,
    ImportDocuments,
    ImportedDocuments,
    NewImport,
    StoredDocument,
    carried,
    migrated,
    migrations_since,
    parsed,
    transferred,
)

_PARTS = "uploads/imports"
"""Where parts of large blobs lie until they are one; what was abandoned there is deleted."""


async def begin_import(plane: ControlPlane, archive: str, request: NewImport) -> Import:
    """Of that archive, or goes on with it. Raises `InvalidInput` and `NotEmpty`."""
    if request.schema_version > LATEST:
        expected = f"at most {LATEST}: install xmcloud {request.version}, or a newer one"
        raise InvalidInput("schema_version", request.schema_version, expected)
    stored = await _current(plane)
    if stored is not None and stored.item.archive == archive:
        return stored.item.evolve(resumed=True)
    await _require_empty(plane, stored.item if stored else None)
    new = Import(
        archive=archive, schema_version=request.schema_version, started_at=plane.clock.now()
    )
    write = IMPORTS.replace(stored, new) if stored else IMPORTS.create(new)
    try:
        await plane.store.commit([write])
    except PreconditionFailed:
        raise Contended("The import") from None
    return new


async def _require_empty(plane: ControlPlane, last: Import | None) -> None:
    found, _ = await EXPERIMENTS.find(plane.store, queries.experiments().page(1, None))
    if not found:
        return
    if last is not None and last.finished_at is None:
        raise NotEmpty(
            f"The import of another archive, begun {last.started_at:%Y-%m-%d %H:%M} UTC, "
            "is not finished.",
            "Run it again with that archive, or import into an empty control plane.",
        )
    raise NotEmpty(
        f"This control plane has experiments, {found[0].item.id} is one.",
        "Import into an empty one: with another XMCLOUD_HOME, or in another project.",
    )


async def import_documents(
    plane: ControlPlane, archive: str, request: ImportDocuments
) -> ImportedDocuments:
    """All of a unit of jobs or none. Raises `NotFound`, `InvalidInput` and `TooLarge`."""
    under_way = await _under_way(plane, archive)
    collection = transferred(request.collection)
    documents: Sequence[StoredDocument] = request.documents
    for migration in migrations_since(under_way.schema_version, collection.name):
        documents = [await _migrated(plane, migration, each) for each in documents]
    items = [parsed(collection, document) for document in documents]
    keys = [collection.key(item) for item in items]
    if len(set(keys)) < len(keys):
        raise InvalidInput("documents", keys, "each of them once")
    created = replaced = 0
    for together, unit in groupby(items, _group if collection is JOBS else lambda _: ""):
        some = list(unit)
        if together:
            created += await _all_or_none(plane, some)
            continue
        lost = await _create(plane, collection, some)
        created += len(some) - len(lost)
        if collection.name in REPLACED:
            replaced += await _replace(plane, collection, lost)
    kept = len(items) - created - replaced
    return ImportedDocuments(created=created, replaced=replaced, kept=kept)


async def _migrated(
    plane: ControlPlane, migration: Migration, document: StoredDocument
) -> StoredDocument:
    """What it needs was imported before it."""
    try:
        address = migration.needs(document.data)
    except (KeyError, TypeError, ValueError):
        return migrated(migration, document, None)
    if address is None:
        return migrated(migration, document, None)
    (found,) = await plane.store.get(address[0], [address[1]])
    return migrated(migration, document, found.data if found else None)


def _group(job: Job) -> str:
    """The first of its jobs; '' of a job that is alone."""
    return job.members[0] if job.group else ""


async def _all_or_none(plane: ControlPlane, jobs: Sequence[Job]) -> int:
    """How many were made: those of a group start together, so none is there without the rest."""
    try:
        await plane.store.commit(list(map(JOBS.create, jobs)))
    except PreconditionFailed:
        return 0
    except TooLarge:
        return len(jobs) - len(await _create(plane, JOBS, jobs))
    return len(jobs)


async def _create(
    plane: ControlPlane, collection: Collection[Any], items: Sequence[Any]
) -> list[Any]:
    """Those that were there already."""
    versions = await plane.store.apply([collection.create(item) for item in items])
    return [item for item, version in zip(items, versions, strict=True) if version is None]


async def _replace(plane: ControlPlane, collection: Collection[Any], items: Sequence[Any]) -> int:
    """How many were not the same."""
    there = await collection.get_many(plane.store, [collection.key(item) for item in items])
    writes = [
        collection.replace(stored, item)
        for stored, item in zip(there, items, strict=True)
        if stored is not None and stored.item != item
    ]
    if writes and None in await plane.store.apply(writes):
        raise Contended(f"Collection {collection.name}")
    return len(writes)


async def import_blob(
    plane: ControlPlane, archive: str, key: str, offset: int, size: int, data: bytes
) -> None:
    """The bytes from `offset` on of a blob of `size`; the last ones make it whole.

    Raises `NotFound`, `InvalidInput`, `TooLarge` and `StorageFull`.
    """
    await _under_way(plane, archive)
    if not carried(key):
        raise InvalidInput("key", key, "that of an exported blob")
    if len(data) > PART_LIMIT:
        raise TooLarge("The part", len(data), PART_LIMIT)
    if offset + len(data) > size:
        raise InvalidInput("size", size, f"at least {offset + len(data)}, where this part ends")
    if len(data) == size:
        await plane.blobs.put(key, data)
        return
    parts = f"{_PARTS}/{hashlib.sha256(key.encode()).hexdigest()}/"
    await plane.blobs.put(f"{parts}{offset:015d}", data)
    if offset + len(data) == size:
        await _compose(plane, key, parts, size)
        await plane.blobs.delete(parts)


async def _compose(plane: ControlPlane, key: str, parts: str, size: int) -> None:
    end = 0
    names: list[str] = []
    for name, length in await plane.blobs.list(parts):
        if name == f"{parts}{end:015d}":
            names.append(name)
            end += length
    if end == size:
        await plane.blobs.compose(key, names)
    elif (key, size) not in await plane.blobs.list(key, limit=1):  # else it was made already
        raise InvalidInput("offset", end, "sent before the last part")


async def finish_import(plane: ControlPlane, archive: str) -> Import:
    """Lets workers look at what waits, and leases run out. Raises `NotFound`."""
    stored = await _current(plane)
    if stored is None or stored.item.archive != archive:
        raise _not_begun(archive)
    if stored.item.finished_at is not None:
        return stored.item
    for queue in await ordered_queues(plane):
        await wake_queue(plane, queue.name)
    await plane.blobs.delete(f"{_PARTS}/")
    done = stored.item.evolve(finished_at=plane.clock.now())
    try:
        await plane.store.commit([IMPORTS.replace(stored, done)])
    except PreconditionFailed:
        raise Contended("The import") from None
    plane.alarm("import", plane.clock.now())
    return done


async def _current(plane: ControlPlane) -> Stored[Import] | None:
    (stored,) = await IMPORTS.get_many(plane.store, ["current"])
    return stored


async def _under_way(plane: ControlPlane, archive: str) -> Import:
    stored = await _current(plane)
    if stored is None or stored.item.archive != archive or stored.item.finished_at is not None:
        raise _not_begun(archive)
    return stored.item


def _not_begun(archive: str) -> NotFound:
    return NotFound("import under way of archive", archive, "Begin it first.")
