"""What is exported from a control plane and imported into another."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from xmcloud.core.base import Model, Time
from xmcloud.core.blobs import PART_LIMIT, PARTS_LIMIT
from xmcloud.core.documents import (
    AUDIT,
    BUILDS,
    EXPERIMENTS,
    JOBS,
    MEMBERS,
    POOLS,
    PROJECTS,
    QUEUES,
    SECRETS,
    SESSIONS,
    TARGETS,
    TOKENS,
    TURNSTILES,
    USAGE,
    Collection,
)
from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.migrations import MIGRATIONS, SCHEMA, Migration
from xmcloud.core.names import Digest
from xmcloud.core.ports import Direction, Document, JsonObject

TRANSFERRED: Sequence[Collection[Any]] = (
    QUEUES,
    PROJECTS,
    MEMBERS,
    TOKENS,
    SECRETS,
    AUDIT,
    TARGETS,
    POOLS,
    BUILDS,
    EXPERIMENTS,
    JOBS,
    USAGE,
    SESSIONS,
)
"""In the order of an import: who is named comes before who names it.

The sessions come last: their leases run out while the jobs that hang on them are there.
"""

READ_FIRST = JOBS
"""Of what goes on meanwhile, the jobs are older than all that they name."""

REPLACED = frozenset({QUEUES.name, PROJECTS.name})
"""Of what an empty control plane may have already, the archive's takes the place."""

ORDERS: dict[str, tuple[tuple[str, Direction], ...]] = {
    JOBS.name: (("experiment_id", "asc"), ("unit", "asc")),
}
"""How a collection is read; others by id. The jobs of a unit stand together."""

LEFT_BEHIND = "uploads/"
"""Blobs that mean nothing elsewhere begin so: parts of what is under way."""

PAGE_BYTES = 8 * 1024 * 1024
"""Of the documents in one page, unless one unit alone has more."""

PAGE_DOCUMENTS = 200
"""More than a unit has jobs."""

KEYS_LIMIT = 5000
"""Keys of blobs in one page."""

BLOB_LIMIT = PART_LIMIT * PARTS_LIMIT
"""Bytes."""

_KEY = r"^[A-Za-z0-9._-]{1,200}(?:/[A-Za-z0-9._-]{1,200})*$"

BlobKey = Annotated[str, StringConstraints(pattern=_KEY, max_length=1000)]
"""The name of a blob."""


class Exportable(Model):
    """What there is to export."""

    version: str = Field(description="Of the control plane.")
    schema_version: int = Field(description="Of its documents.")
    collections: tuple[str, ...] = Field(description="In the order in which to read them.")


class StoredDocument(Model):
    """A document as it is stored: what queries look at, and the whole in `body`."""

    id: Annotated[str, Field(min_length=1, max_length=400)]
    data: JsonObject


class Documents(Model):
    """A page of the documents of one collection."""

    documents: list[StoredDocument]
    cursor: str | None = Field(None, description="For the next page; null on the last one.")


class KeyedBlob(Model):
    """A blob of whatever kind."""

    key: BlobKey
    size: int = Field(description="Bytes.")


class KeyedBlobs(Model):
    """A page of the blobs, in order of key."""

    blobs: list[KeyedBlob]
    cursor: str | None = Field(None, description="For the next page; null on the last one.")


class NewImport(Model):
    """What an archive says of what made it."""

    version: Annotated[str, Field(max_length=100)] = Field(description="Of the control plane.")
    schema_version: Annotated[int, Field(ge=0)] = Field(description="Of its documents.")


class Import(Model):
    """An import of one archive; a control plane takes one at a time."""

    archive: Digest = Field(description="SHA-256 of the archive's checksums.")
    schema_version: int = Field(description="Of its documents.")
    started_at: Time
    finished_at: Time | None = None
    resumed: bool = Field(False, description="Some of it may be there already.")


IMPORTS = Collection("imports", Import, lambda _: "current", lambda _: {})
"""The import under way, or the last one. It stays where it is."""

STAYING: Sequence[Collection[Any]] = (IMPORTS, SCHEMA, TURNSTILES)


class ImportDocuments(Model):
    """Documents of one collection, as they were exported."""

    collection: str
    documents: Annotated[tuple[StoredDocument, ...], Field(min_length=1, max_length=PAGE_DOCUMENTS)]


class Manifest(Model):
    """What an archive says of itself."""

    format: Literal[1] = 1
    version: str = Field(description="Of the control plane that it was exported from.")
    schema_version: int = Field(description="Of the documents.")
    made_at: Time
    documents: dict[str, int] = Field(description="By collection.")
    blobs: int
    blob_bytes: int


class ImportedDocuments(Model):
    """What became of the documents of a request."""

    created: int
    replaced: int = Field(description="What an empty control plane has by itself.")
    kept: int = Field(description="They were there already.")


def carried(key: str) -> bool:
    """Whether a blob is exported. What others keep in the same bucket may have other names."""
    return re.fullmatch(_KEY, key) is not None and not key.startswith(LEFT_BEHIND)


def transferred(name: str) -> Collection[Any]:
    """Raises `NotFound`."""
    for collection in TRANSFERRED:
        if collection.name == name:
            return collection
    raise NotFound("collection", name, "A newer version may have it: install that one.")


def migrations_since(schema: int, collection: str) -> list[Migration]:
    """What documents of that schema have to go through, in order."""
    return [each for each in MIGRATIONS[schema:] if each.collection == collection]


def migrated(
    migration: Migration, document: StoredDocument, needed: JsonObject | None
) -> StoredDocument:
    """Raises `InvalidInput`, which names the document."""
    try:
        data = migration.change(document.data, needed)
    except (KeyError, TypeError, ValueError):
        raise _invalid(migration.collection, document, "of its archive's schema") from None
    return document if data is None else StoredDocument(id=document.id, data=data)


def parsed(collection: Collection[Any], document: StoredDocument) -> Any:
    """Raises `InvalidInput`, which names the document."""
    try:
        item = collection.read(Document(document.id, document.data, "")).item
    except KeyError:
        raise _invalid(collection.name, document, "valid (it has no body)") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise _invalid(collection.name, document, f"valid ({where}: {first['msg']})") from None
    if collection.key(item) != document.id:
        raise _invalid(collection.name, document, f"that of {collection.key(item)}")
    return item


def _invalid(collection: str, document: StoredDocument, expected: str) -> InvalidInput:
    return InvalidInput(f"{collection}/{document.id}", document.data.get("body"), expected)
