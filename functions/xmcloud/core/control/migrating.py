"""Brings documents into the form of this version while everything goes on."""

import logging
from collections.abc import Sequence

from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.logs import about
from xmcloud.core.migrations import LATEST, MIGRATIONS, SCHEMA, Address, Migration, Schema
from xmcloud.core.ports import Document, JsonObject, PreconditionFailed, Query, Write

PAGE = 100
"""Documents, each of half a MiB at most, that are in memory together."""

PAGES = 40
"""Looked through in one call: seconds, so that leases that run out meanwhile end in time."""

logger = logging.getLogger("xmcloud.migrations")


async def require_known_schema(plane: ControlPlane) -> None:
    """Looks once a process. Raises `NewerSchema`."""
    if not plane.schema.known:
        state, _ = await load_schema(plane)
        state.require_known()
        plane.schema.known = True


async def migrate(plane: ControlPlane) -> None:
    """Does a part of what is left, and goes on where it was cut short.

    Safe to run by several at once. Raises `NewerSchema`.
    """
    now = plane.clock.now()
    if plane.schema.rests(now):
        return
    for _ in range(PAGES):
        state, document = await load_schema(plane)
        state.require_known()
        looking = state.looking(now)
        if looking is None:
            _rest(plane, state)
            return
        await _look_through(plane, looking, document)
    plane.alarm("schema", now)


async def load_schema(plane: ControlPlane) -> tuple[Schema, Document | None]:
    """How far the store is, and the document that says so if there is one yet."""
    (document,) = await plane.store.get(SCHEMA.name, [SCHEMA.key(Schema())])
    return (Schema(), None) if document is None else (SCHEMA.read(document).item, document)


def _rest(plane: ControlPlane, state: Schema) -> None:
    plane.schema.known, plane.schema.done = True, state.version >= LATEST
    plane.schema.next_at = state.next_at
    if state.next_at is not None:
        plane.alarm("schema", state.next_at)


async def _look_through(plane: ControlPlane, state: Schema, document: Document | None) -> None:
    """One page of the pass. Whoever finds that another process went on leaves it to that one."""
    migration = MIGRATIONS[state.step - 1]
    query = Query(migration.collection).page(PAGE, state.cursor)
    page = await plane.store.find(query)
    writes = await _writes(plane, migration, page.documents)
    try:
        if writes and not state.changed:
            # Told before anything is changed: a pass that was cut short is not taken for clean.
            state = state.evolve(changed=True)
            document = await _save(plane, document, state)
        if await _change(plane, migration, writes):
            done = state.looked(page.cursor, plane.clock.now())
            await _save(plane, document, done)
            _tell(state, done)
    except PreconditionFailed:
        await backoff(1)


async def _save(plane: ControlPlane, document: Document | None, state: Schema) -> Document:
    """Raises `PreconditionFailed`."""
    data = SCHEMA.data(state)
    if document is None:
        write = Write.create(SCHEMA.name, SCHEMA.key(state), data)
    else:
        write = Write.replace(SCHEMA.name, document, data)
    (version,) = await plane.store.commit([write])
    return Document(write.id, data, version)


async def _change(plane: ControlPlane, migration: Migration, writes: Sequence[Write]) -> bool:
    """Looks again at what requests wrote meanwhile; False if they always were faster."""
    for attempt in range(TRIES):
        if not writes:
            return True
        versions = await plane.store.apply(writes)
        lost = [w.id for w, version in zip(writes, versions, strict=True) if version is None]
        found = await plane.store.get(migration.collection, lost)
        writes = await _writes(plane, migration, [each for each in found if each is not None])
        if writes:
            await backoff(attempt)
    return not writes


async def _writes(
    plane: ControlPlane, migration: Migration, documents: Sequence[Document]
) -> list[Write]:
    needed = await _needed(plane, [migration.needs(each.data) for each in documents])
    writes = []
    for each in documents:
        address = migration.needs(each.data)
        try:
            data = migration.change(each.data, needed.get(address) if address else None)
        except (KeyError, ValueError) as error:
            name = f"{migration.collection}/{each.id}"
            logger.warning("%s cannot be understood, and stays as it is: %s", name, error)
            continue
        if data is not None:
            writes.append(Write.replace(migration.collection, each, data))
    return writes


async def _needed(
    plane: ControlPlane, addresses: Sequence[Address | None]
) -> dict[Address, JsonObject]:
    by_collection: dict[str, set[str]] = {}
    for collection, id in filter(None, addresses):
        by_collection.setdefault(collection, set()).add(id)
    return {
        (collection, found.id): found.data
        for collection, ids in by_collection.items()
        for found in await plane.store.get(collection, sorted(ids))
        if found is not None
    }


def _tell(before: Schema, after: Schema) -> None:
    if after.step == 0:
        logger.info(
            "documents were looked through for schema %d%s; the store is of schema %d",
            after.goal,
            " and some were changed" if before.changed else "",
            after.version,
            extra=about(event="migrated", schema=after.version, goal=after.goal),
        )
