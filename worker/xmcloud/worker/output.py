"""Notices what running jobs wrote."""

import asyncio
from collections.abc import Callable
from typing import Never

_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 0.5
_GROWTH = 1.3


class Tail:
    """Looks at the logs of running jobs: often at first, less often the longer they run."""

    def __init__(self, grown: Callable[[], bool], tell: Callable[[], None]) -> None:
        self._grown = grown
        self._tell = tell
        self._fresh = asyncio.Event()

    def restart(self) -> None:
        """A job was started."""
        self._fresh.set()

    async def run(self, busy: asyncio.Event) -> Never:
        interval = _SHORTEST_SECONDS
        while True:
            await busy.wait()
            await asyncio.sleep(interval)
            interval = min(interval * _GROWTH, _LONGEST_SECONDS)
            if self._fresh.is_set():
                self._fresh.clear()
                interval = _SHORTEST_SECONDS
            if self._grown():
                self._tell()
