"""Files go up as blobs: in parts if they are large, and on from where it broke off."""

import asyncio
import hashlib
from functools import partial
from pathlib import Path

from xmcloud.core.blobs import PARTS_LIMIT, BlobParts, CompleteBlob
from xmcloud.core.errors import NotFound, TooLarge
from xmcloud.worker.client import ApiClient, Refused

PART_BYTES = 8 * 1024 * 1024
"""What is in memory of a file; one that has no more goes up whole."""

_READS_BYTES_A_SECOND = 20 * 1024 * 1024
"""How slowly the control plane may read the parts that it puts together."""


async def upload(api: ApiClient, path: Path) -> str:
    """The digest of the file, which the control plane has when this returns.

    Insists through outages. Raises `Refused`, also for a file that changes meanwhile, `TooLarge`
    and OSError.
    """
    size = (await asyncio.to_thread(path.stat)).st_size
    if size > PARTS_LIMIT * PART_BYTES:
        raise TooLarge(str(path), size, PARTS_LIMIT * PART_BYTES)
    digest = await asyncio.to_thread(_digest, path)
    if not await _is_there(api, digest):
        if size <= PART_BYTES:
            await api.exchange("PUT", f"/v1/blobs/{digest}", await _part(path, 0))
        else:
            await _send_parts(api, digest, path, size)
    return digest


async def _is_there(api: ApiClient, digest: str) -> bool:
    try:
        await api.exchange("HEAD", f"/v1/blobs/{digest}")
    except Refused as error:
        if error.problem.status == NotFound.status:
            return False
        raise
    return True


async def _send_parts(api: ApiClient, digest: str, path: Path, size: int) -> None:
    answer = await api.exchange("GET", f"/v1/blobs/{digest}/parts")
    there = {part.digest for part in BlobParts.received(answer.body).parts}
    parts: list[str] = []
    for start in range(0, size, PART_BYTES):
        data = await _part(path, start)
        part = await asyncio.to_thread(_sha256, data)
        if part not in there:
            await api.exchange("PUT", f"/v1/blobs/{digest}/parts/{part}", data)
            there.add(part)
        parts.append(part)
    body = CompleteBlob(parts=tuple(parts)).model_dump_json().encode()
    seconds = size / _READS_BYTES_A_SECOND
    await api.exchange("POST", f"/v1/blobs/{digest}/complete", body, server_seconds=seconds)


async def _part(path: Path, start: int) -> bytes:
    return await asyncio.to_thread(partial(_read, path, start))


def _read(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(PART_BYTES)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
