"""Jobs see the bucket as a folder: what they write to their checkpoints is kept in the store."""

import asyncio
from contextlib import suppress
from pathlib import Path

from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import Blobs
from xmcloud.local.standins.containers import Container, Runner, Running

CHECKPOINT = "XMCLOUD_CHECKPOINT"


class Mirrored:
    """A `Runner` whose containers find their checkpoint as it is in the store.

    It is copied there when the container has ended, before anybody hears of that. Cloud Storage
    FUSE writes through; where the bucket is no folder of this machine, this comes near enough.
    """

    def __init__(self, runner: Runner, blobs: Blobs, bucket: str, folder: Path) -> None:
        self._runner, self._blobs = runner, blobs
        self._mount, self._folder = f"/gcs/{bucket}/", folder

    async def start(self, container: Container) -> Running:
        prefix = self._prefix(container)
        if not prefix:
            return await self._runner.start(container)
        for key, _ in await self._blobs.list(prefix):
            await asyncio.to_thread(_write, self._folder / key, await self._blobs.get(key))
        return _Kept(await self._runner.start(container), self._blobs, self._folder, prefix)

    def _prefix(self, container: Container) -> str:
        path = container.environment.get(CHECKPOINT, "")
        return f"{path.removeprefix(self._mount)}/" if path.startswith(self._mount) else ""


class _Kept:
    """Copies the checkpoint into the store, once, when the container has ended."""

    def __init__(self, running: Running, blobs: Blobs, folder: Path, prefix: str) -> None:
        self._running, self._blobs = running, blobs
        self._folder, self._prefix = folder, prefix
        self._end = asyncio.create_task(self._watch())

    async def ended(self) -> int:
        return await asyncio.shield(self._end)

    async def stop(self, grace_seconds: float) -> None:
        await self._running.stop(grace_seconds)
        await self.ended()

    async def _watch(self) -> int:
        code = await self._running.ended()
        for path in sorted((self._folder / self._prefix).rglob("*")):
            if path.is_file():
                data = await asyncio.to_thread(path.read_bytes)
                with suppress(XmcloudError):
                    await self._blobs.put(str(path.relative_to(self._folder)), data)
        return code


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
