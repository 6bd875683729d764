"""/v1/blobs: source archives and binaries, by the digest of their content."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.names import Digest
from xmcloud.functions.http.common import Plane

router = APIRouter(prefix="/blobs", tags=["blobs"])

BlobDigest = Annotated[Digest, Path(description="SHA-256 of the content, in hexadecimal.")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def _key(digest: str) -> str:
    return f"content/{digest}"


async def _exists(plane: Plane, digest: str) -> bool:
    return any(key == _key(digest) for key, _ in await plane.blobs.list(_key(digest)))


@router.put(
    "/{digest}",
    status_code=201,
    response_class=Response,
    responses={200: {"description": "It was there already."}},
    openapi_extra={"requestBody": {"content": _BYTES, "required": True}},
)
async def put_blob(plane: Plane, digest: BlobDigest, request: Request) -> Response:
    """Stores the body; 200 when it was there already."""
    data = await request.body()
    if hashlib.sha256(data).hexdigest() != digest:
        raise InvalidInput("digest", digest, "the SHA-256 of the body")
    if await _exists(plane, digest):
        return Response(status_code=200)
    await plane.blobs.put(_key(digest), data)
    return Response(status_code=201)


@router.head("/{digest}", response_class=Response)
async def has_blob(plane: Plane, digest: BlobDigest) -> Response:
    """Says whether the blob is there."""
    if not await _exists(plane, digest):
        raise NotFound("blob", digest)
    return Response(status_code=200)


@router.get("/{digest}", response_class=Response, responses={200: {"content": _BYTES}})
async def get_blob(plane: Plane, digest: BlobDigest) -> Response:
    """The bytes of the blob."""
    data = await plane.blobs.get(_key(digest))
    return Response(data, media_type="application/octet-stream")
