"""Whether the worker takes jobs."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger("xmcloud.worker")


class Gate:
    """Open unless something keeps it closed; each reason is opened by who closed it."""

    def __init__(self) -> None:
        self._closed: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.tell: Callable[[], None] = lambda: None
        """Called when it was opened or closed."""

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    @property
    def reason(self) -> str:
        """Why it is closed; '' when it is not."""
        return ", ".join(sorted(self._closed))

    async def wait(self) -> None:
        """Until it is open."""
        await self._open.wait()

    def keep(self, reason: str, *, closed: bool) -> None:
        """Idempotent."""
        if closed == (reason in self._closed):
            return
        if closed:
            self._closed.add(reason)
            self._open.clear()
            logger.info("takes no more jobs: %s", reason)
        else:
            self._closed.discard(reason)
            if not self._closed:
                self._open.set()
                logger.info("takes jobs again")
        self.tell()
