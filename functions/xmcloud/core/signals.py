"""Wakes the requests of this process that wait for something to change."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Signals:
    """Subjects are strings; a subject that nobody waits for costs nothing."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def send(self, subject: str) -> None:
        """Wakes everybody who listens to the subject now."""
        for event in self._waiting.get(subject, ()):
            event.set()

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator[asyncio.Event]:
        """An event that the next `send` sets. Listen first, then look, then wait."""
        event = asyncio.Event()
        self._waiting[subject].add(event)
        try:
            yield event
        finally:
            self._waiting[subject].discard(event)
            if not self._waiting[subject]:
                del self._waiting[subject]


async def woken(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within `seconds`; it is cleared for the next wait."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    event.clear()
    return True
