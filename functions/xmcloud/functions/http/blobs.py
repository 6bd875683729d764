"""/v1/blobs: source archives and binaries, by the digest of their content."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from starlette.responses import Response, StreamingResponse

from xmcloud.core.blobs import BlobParts, CompleteBlob, StoredBlob
from xmcloud.core.control import content
from xmcloud.core.errors import NotFound
from xmcloud.core.identity import Permission
from xmcloud.core.names import Digest
from xmcloud.core.protocol import Problem
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import StoredPlane, allowed_anywhere, answer
from xmcloud.functions.http.problems import MEDIA_TYPE, problem_response
from xmcloud.functions.http.ranges import ByteRange, Unsatisfiable

router = APIRouter(prefix="/blobs", tags=["blobs"])

_READS = [allowed_anywhere(Permission.READ, Permission.WORK)]
"""Whoever knows the digest of some content has had it, or was told it by who may see it."""

_WRITES = [allowed_anywhere(Permission.WRITE, Permission.WORK)]

PIECE_BYTES = 4 * 1024 * 1024
"""What is in memory of a blob that is sent whole."""

RANGE_BYTES = 16 * 1024 * 1024
"""The most that a request for a range is answered with."""

BlobDigest = Annotated[Digest, Path(description="SHA-256 of the content, in hexadecimal.")]
PartDigest = Annotated[Digest, Path(description="SHA-256 of the part, in hexadecimal.")]
Range = Annotated[
    str | None,
    Header(alias="Range", description="`bytes=START-END`; the answer may end earlier."),
]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BINARY_BODY = {"requestBody": {"content": _BYTES, "required": True}}
_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}


@router.put(
    "/{digest}",
    dependencies=_WRITES,
    status_code=201,
    response_class=Response,
    responses={200: {"description": "It was there already."}},
    openapi_extra=_BINARY_BODY,
)
async def put_blob(plane: StoredPlane, digest: BlobDigest, request: Request) -> Response:
    """Stores the body; 200 when it was there already."""
    made = await content.put_content(plane, digest, await request.body())
    return Response(status_code=201 if made else 200)


@router.head("/{digest}", response_class=Response, dependencies=_READS)
async def has_blob(plane: StoredPlane, digest: BlobDigest) -> Response:
    """Says whether the blob is there, and its size."""
    size = await _size(plane, digest)
    return Response(headers={"Content-Length": str(size), "Accept-Ranges": "bytes"})


@router.get(
    "/{digest}",
    dependencies=_READS,
    response_class=Response,
    responses={
        200: {"content": _BYTES},
        206: {"description": "The range that was asked for.", "content": _BYTES},
        416: {"description": "The range lies beyond the end.", "content": {MEDIA_TYPE: _PROBLEM}},
    },
)
async def get_blob(plane: StoredPlane, digest: BlobDigest, asked: Range = None) -> Response:
    """The bytes of the blob, or a range of them of at most 16 MiB."""
    size = await _size(plane, digest)
    try:
        part = ByteRange.parse(asked, size, RANGE_BYTES)
    except Unsatisfiable:
        return _unsatisfiable(digest, size)
    if part is None:
        headers = {"Accept-Ranges": "bytes"}
        return StreamingResponse(
            _pieces(plane, digest, size), headers=headers, media_type="application/octet-stream"
        )
    data = await plane.blobs.get(content.content_key(digest), part.start, part.end)
    headers = {"Content-Range": part.content_range, "Accept-Ranges": "bytes"}
    return Response(data, 206, headers, media_type="application/octet-stream")


@router.put(
    "/{digest}/parts/{part}",
    dependencies=_WRITES,
    status_code=201,
    response_class=Response,
    responses={200: {"description": "It was there already."}},
    openapi_extra=_BINARY_BODY,
)
async def put_blob_part(
    plane: StoredPlane, digest: BlobDigest, part: PartDigest, request: Request
) -> Response:
    """Stores the body, at most 16 MiB, as a part of the blob; 200 when it was there already."""
    made = await content.put_part(plane, digest, part, await request.body())
    return Response(status_code=201 if made else 200)


@router.get("/{digest}/parts", response_model=BlobParts, dependencies=_WRITES)
async def blob_parts(plane: StoredPlane, digest: BlobDigest) -> Response:
    """The parts that are there of a blob that is not complete."""
    return answer(BlobParts(parts=await content.parts_of(plane, digest)))


@router.post(
    "/{digest}/complete",
    dependencies=_WRITES,
    status_code=201,
    response_model=StoredBlob,
    responses={200: {"description": "It was there already.", "model": StoredBlob}},
)
async def complete_blob(
    plane: StoredPlane, digest: BlobDigest, body: Annotated[CompleteBlob, examples.COMPLETE_BLOB]
) -> Response:
    """Makes the blob of its parts, if that is its digest; 200 when it was there already."""
    stored, made = await content.complete(plane, digest, body.parts)
    return answer(stored, 201 if made else 200)


async def _size(plane: StoredPlane, digest: str) -> int:
    size = await content.content_size(plane, digest)
    if size is None:
        raise NotFound("blob", digest)
    return size


async def _pieces(plane: StoredPlane, digest: str, size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, PIECE_BYTES):
        yield await plane.blobs.get(content.content_key(digest), start, start + PIECE_BYTES)


def _unsatisfiable(digest: str, size: int) -> Response:
    refusal = Problem(
        type="urn:xmcloud:problem:range-not-satisfiable",
        title="Range not satisfiable",
        status=416,
        detail=f"Blob {digest} has {size} bytes.",
        remedy="Ask for a range that begins before its end.",
    )
    return problem_response(refusal, {"Content-Range": f"bytes */{size}"})
