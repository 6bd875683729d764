"""The log of a build, which grows in its bucket while the build works."""

import asyncio
from collections.abc import Awaitable, Callable

from xmcloud.core.ports import Clock
from xmcloud.local.standins.cloud_build_races import first

_FLUSH_SECONDS = 0.5


class BuildLog:
    """`write` replaces the whole object."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._text = bytearray()
        self._written = 0
        self._grew, self._closed = asyncio.Event(), asyncio.Event()

    def line(self, text: str) -> None:
        self.add(f"{text}\n".encode())

    def add(self, text: bytes) -> None:
        self._text += text
        self._grew.set()

    def close(self) -> None:
        """Nothing is added any more."""
        self._closed.set()

    async def keep_writing(self) -> None:
        """Returns when it is closed and all of it is written."""
        while not self._closed.is_set():
            await first(self._grew.wait(), self._closed.wait())
            # Not to be cancelled half-way: an old write that ends late would undo a newer one.
            await self._flush()
            await first(self._clock.sleep(_FLUSH_SECONDS), self._closed.wait())
        await self._flush()

    async def _flush(self) -> None:
        self._grew.clear()
        if len(self._text) > self._written:
            text = bytes(self._text)
            await self._write(text)
            self._written = len(text)
