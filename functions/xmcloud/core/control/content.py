"""Content by its SHA-256: whole, or as parts that become one blob."""

import asyncio
import hashlib
from collections.abc import Sequence

from xmcloud.core.blobs import PART_LIMIT, BlobPart, StoredBlob
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import InvalidInput, NotFound, TooLarge


def content_key(digest: str) -> str:
    return f"content/{digest}"


def _upload(digest: str) -> str:
    """The prefix of its parts. What lies there for days was abandoned and may be deleted."""
    return f"uploads/{digest}/"


async def content_size(plane: ControlPlane, digest: str) -> int | None:
    """Bytes of the blob, None if it is not there."""
    key = content_key(digest)
    return dict(await plane.blobs.list(key)).get(key)


async def put_content(plane: ControlPlane, digest: str, data: bytes) -> bool:
    """False when it was there already. Raises `InvalidInput` and `StorageFull`."""
    _check(data, digest, "digest")
    if await content_size(plane, digest) is not None:
        return False
    await plane.blobs.put(content_key(digest), data)
    return True


async def put_part(plane: ControlPlane, digest: str, part: str, data: bytes) -> bool:
    """False when it was there already. Raises `InvalidInput`, `TooLarge` and `StorageFull`."""
    if len(data) > PART_LIMIT:
        raise TooLarge("The part", len(data), PART_LIMIT)
    _check(data, part, "part")
    if part in {each.digest for each in await parts_of(plane, digest)}:
        return False
    await plane.blobs.put(f"{_upload(digest)}{part}", data)
    return True


async def parts_of(plane: ControlPlane, digest: str) -> list[BlobPart]:
    there = await plane.blobs.list(_upload(digest))
    names = [(key.rpartition("/")[2], size) for key, size in there]
    # An adapter may keep half of a composition beside the parts.
    return [BlobPart(digest=name, size=size) for name, size in names if len(name) == len(digest)]


async def complete(
    plane: ControlPlane, digest: str, parts: Sequence[str]
) -> tuple[StoredBlob, bool]:
    """The blob, made of its parts, and whether it was made now.

    Parts are named by their content, so what is verified is what is composed. Raises `NotFound`
    when a part is missing, and `InvalidInput` when they do not make this content; then they are
    removed.
    """
    size = await content_size(plane, digest)
    made = size is None
    if size is None:
        size = await _composed(plane, digest, parts)
    await plane.blobs.delete(_upload(digest))
    return StoredBlob(digest=digest, size=size), made


async def _composed(plane: ControlPlane, digest: str, parts: Sequence[str]) -> int:
    try:
        size = await _verified(plane, digest, parts)
        keys = [f"{_upload(digest)}{part}" for part in parts]
        await plane.blobs.compose(content_key(digest), keys)
    except NotFound:
        there = await content_size(plane, digest)
        if there is None:  # otherwise somebody else completed it meanwhile
            raise
        return there
    return size


async def _verified(plane: ControlPlane, digest: str, parts: Sequence[str]) -> int:
    """Bytes of the parts together; memory holds one of them at a time."""
    found, size = hashlib.sha256(), 0
    for part in parts:
        data = await _part(plane, digest, part)
        await asyncio.to_thread(found.update, data)
        size += len(data)
    if found.hexdigest() != digest:
        await plane.blobs.delete(_upload(digest))
        raise InvalidInput("digest", digest, "the SHA-256 of the parts, one after the other")
    return size


async def _part(plane: ControlPlane, digest: str, part: str) -> bytes:
    try:
        return await plane.blobs.get(f"{_upload(digest)}{part}")
    except NotFound:
        raise NotFound("part", part, "Send the part, then complete the blob again.") from None


def _check(data: bytes, digest: str, field: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise InvalidInput(field, digest, "the SHA-256 of the body")
