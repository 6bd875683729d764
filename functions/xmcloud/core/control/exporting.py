"""Everything that a control plane keeps, a page at a time."""

from collections.abc import Sequence

from xmcloud.core import cursors
from xmcloud.core.control.migrating import load_schema
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS
from xmcloud.core.ports import Document, Query
from xmcloud.core.transfer import (
    KEYS_LIMIT,
    ORDERS,
    PAGE_BYTES,
    PAGE_DOCUMENTS,
    READ_FIRST,
    TRANSFERRED,
    Documents,
    Exportable,
    KeyedBlob,
    KeyedBlobs,
    StoredDocument,
    carried,
    transferred,
)
from xmcloud.core.version import VERSION


async def exportable(plane: ControlPlane) -> Exportable:
    """What there is, in the order in which to read it."""
    schema, _ = await load_schema(plane)
    others = [each.name for each in TRANSFERRED if each is not READ_FIRST]
    return Exportable(
        version=VERSION, schema_version=schema.version, collections=(READ_FIRST.name, *others)
    )


async def export_documents(plane: ControlPlane, name: str, cursor: str | None) -> Documents:
    """A page that is small enough for an answer. Raises `NotFound` and `InvalidInput`."""
    query = Query(
        transferred(name).name, order=ORDERS.get(name, ()), limit=PAGE_DOCUMENTS, after=cursor
    )
    page = await plane.store.find(query)
    kept, after = _fitting(page.documents), page.cursor
    if after is not None or len(kept) < len(page.documents):
        kept = _whole_units(name, kept)
        after = cursors.encode(query, kept[-1])
    documents = [StoredDocument(id=each.id, data=each.data) for each in kept]
    return Documents(documents=documents, cursor=after)


def _fitting(documents: Sequence[Document]) -> list[Document]:
    kept: list[Document] = []
    size = 0
    for document in documents:
        size += len(str(document.data["body"]).encode())
        if kept and size > PAGE_BYTES:
            break
        kept.append(document)
    return kept


def _whole_units(name: str, documents: list[Document]) -> list[Document]:
    """Without the last unit of jobs, of which more may follow, unless it is all there is."""
    if name != JOBS.name:
        return documents

    def unit(document: Document) -> object:
        return document.data["experiment_id"], document.data["unit"]

    last = unit(documents[-1])
    return [document for document in documents if unit(document) != last] or documents


async def export_blobs(plane: ControlPlane, after: str) -> KeyedBlobs:
    """A page of keys."""
    found = await plane.blobs.list("", after, KEYS_LIMIT)
    blobs = [KeyedBlob(key=key, size=size) for key, size in found if carried(key)]
    return KeyedBlobs(blobs=blobs, cursor=found[-1][0] if len(found) == KEYS_LIMIT else None)
