"""/v1/export and /v1/imports: all that is kept, out of one control plane and into another."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from xmcloud.core.control import exporting, importing
from xmcloud.core.identity import Permission
from xmcloud.core.names import Digest
from xmcloud.core.transfer import (
    BLOB_LIMIT,
    BlobKey,
    Documents,
    Exportable,
    Import,
    ImportDocuments,
    ImportedDocuments,
    KeyedBlobs,
    NewImport,
)
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import Cursor, Plane, StoredPlane, allowed, answer

router = APIRouter(tags=["transfer"], dependencies=[allowed(Permission.ADMINISTER)])

PIECE_BYTES = 8 * 1024 * 1024
"""The most of a blob that one request brings."""

ArchiveDigest = Annotated[Digest, Path(description="SHA-256 of the archive's checksums.")]
Key = Annotated[BlobKey, Query(description="The name of the blob.")]
Place = Annotated[int, Query(ge=0, le=BLOB_LIMIT, description="Bytes.")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get("/export", response_model=Exportable)
async def get_exportable(plane: StoredPlane) -> Response:
    """Which collections there are, in the order in which to read them."""
    return answer(await exporting.exportable(plane))


@router.get("/export/documents", response_model=Documents)
async def export_documents(
    plane: StoredPlane,
    collection: Annotated[str, Query(max_length=100)],
    cursor: Cursor = None,
) -> Response:
    """A page of the documents of a collection. What changes meanwhile is there as it was or is."""
    return answer(await exporting.export_documents(plane, collection, cursor))


@router.get("/export/blobs", response_model=KeyedBlobs)
async def export_blobs(plane: StoredPlane, cursor: Cursor = None) -> Response:
    """A page of the names of all blobs, in order, with their sizes."""
    return answer(await exporting.export_blobs(plane, cursor or ""))


@router.get("/export/blob", response_class=Response, responses={200: {"content": _BYTES}})
async def export_blob(plane: StoredPlane, key: Key, start: Place = 0) -> Response:
    """The bytes of the blob from `start` on, at most 8 MiB of them."""
    data = await plane.blobs.get(key, start, start + PIECE_BYTES)
    return Response(data, media_type="application/octet-stream")


@router.post("/imports/{digest}", response_model=Import)
async def begin_import(
    plane: Plane, digest: ArchiveDigest, body: Annotated[NewImport, examples.NEW_IMPORT]
) -> Response:
    """Begins the import of an archive into an empty control plane, or goes on with it."""
    return answer(await importing.begin_import(plane, digest, body))


@router.post("/imports/{digest}/documents", response_model=ImportedDocuments)
async def import_documents(
    plane: StoredPlane,
    digest: ArchiveDigest,
    body: Annotated[ImportDocuments, examples.IMPORT_DOCUMENTS],
) -> Response:
    """Keeps a page of documents as they were exported; what is there already stays."""
    return answer(await importing.import_documents(plane, digest, body))


@router.put(
    "/imports/{digest}/blob",
    status_code=201,
    response_class=Response,
    openapi_extra={"requestBody": {"content": _BYTES, "required": True}},
)
async def import_blob(
    plane: StoredPlane,
    digest: ArchiveDigest,
    request: Request,
    key: Key,
    size: Annotated[int, Query(ge=0, le=BLOB_LIMIT, description="Bytes of the whole blob.")],
    offset: Place = 0,
) -> Response:
    """Keeps the body as the bytes from `offset` on; with the last ones the blob is there."""
    await importing.import_blob(plane, digest, key, offset, size, await request.body())
    return Response(status_code=201)


@router.post("/imports/{digest}/finish", response_model=Import)
async def finish_import(plane: Plane, digest: ArchiveDigest) -> Response:
    """Ends the import: queued jobs are offered to workers, old leases run out."""
    return answer(await importing.finish_import(plane, digest))
