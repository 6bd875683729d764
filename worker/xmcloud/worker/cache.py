"""Files and folders that jobs share, made once and found again by what they are made from."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from xmcloud.core.names import random_id
from xmcloud.worker.client import ApiClient

_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 0.5


class BlobCache:
    """Blobs by their digest, executable, and whole or not there."""

    def __init__(self, folder: Path, client: ApiClient) -> None:
        self._folder = folder / "blobs"
        self._client = client

    async def file(self, digest: str) -> Path:
        """Raises `Refused` when nobody has the blob, `DamagedBlob` and OSError."""
        path = self._folder / digest
        if path.exists():
            return path
        self._folder.mkdir(parents=True, exist_ok=True)
        async with locked(self._folder / f"{digest}.lock"):
            if not path.exists():
                await self._fetch(digest, path)
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
        while not _try_lock(descriptor):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
