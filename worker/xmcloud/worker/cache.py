"""Files and folders that jobs share, made once and found again by what they are made from."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from xmcloud.core.names import random_id
from xmcloud.worker.client import ApiClient
from xmcloud.worker.eviction import Room, try_lock

_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 0.5


class BlobCache:
    """Blobs by their digest, executable, and whole or not there."""

    def __init__(self, folder: Path, client: ApiClient, room: Room | None = None) -> None:
        self._folder = folder / "blobs"
        self._client = client
        self._room = room or Room(folder)

    async def file(self, digest: str) -> Path:
        """Raises `Refused` when nobody has the blob, `DamagedBlob` and OSError."""
        path = self._folder / digest
        if _used(path):
            return path
        self._folder.mkdir(parents=True, exist_ok=True)
        async with locked(self._folder / f"{digest}.lock"):
            if not _used(path):
                await self._fetch(digest, path)
        await self._room.trim()
        return path

    async def _fetch(self, digest: str, path: Path) -> None:
        part = path.with_name(f"{digest}.{random_id()}")
        try:
            await self._client.download(digest, part)
            part.chmod(0o755)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Holds a lock against other tasks and other workers of this machine."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    pause = _FIRST_LOOK_SECONDS
    try:
        while not try_lock(descriptor):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
        os.utime(descriptor)
        yield
    finally:
        os.close(descriptor)


def _used(path: Path) -> bool:
    """Whether the file is there; then it is not the next to be evicted."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
