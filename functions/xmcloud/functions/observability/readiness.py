"""Whether what the control plane stands on answers."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from xmcloud.core.base import Model
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import QUEUES
from xmcloud.core.errors import Unavailable
from xmcloud.core.ports import Message
from xmcloud.core.topics import CONTROL_TOPIC

SECONDS = 3.0
"""What each part has to answer."""

KEPT = timedelta(seconds=5)
"""Nobody needs a token to ask, so one look serves all who ask within that time."""

_NOBODY = Message("nobody", "")
"""No subscription is for that audience, so that all drop it."""

_REMEDIES = {
    "store": "the database is there, has room, and may be used by the API's service account",
    "queue": "Pub/Sub is reachable, and its topics may be used by the API's service account",
    "blobs": "the bucket or the disk is there, and may be used by the API's service account",
}

_NO_BLOB = "ready/"
"""No key begins so. A look at a single blob would not tell a bucket that is missing."""

logger = logging.getLogger("xmcloud.ready")


class Ready(Model):
    """That what the control plane stands on answers."""

    status: Literal["ready"] = "ready"


class NotReady(Unavailable):
    """Something that the control plane stands on does not answer."""

    slug, title = "not-ready", "Not ready"

    def __init__(self, silent: list[str]) -> None:
        remedies = "; ".join(f"{part}: see that {_REMEDIES[part]}" for part in silent)
        super().__init__(
            f"Not answering: {', '.join(silent)}.",
            f"{remedies}. The log of the control plane tells why.",
        )


@dataclass(slots=True)
class Readiness:
    """Looks, and remembers what it saw."""

    seconds: float = SECONDS
    _seen: tuple[datetime, list[str]] | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, plane: ControlPlane) -> None:
        """Raises `NotReady`, which names the parts and tells nothing else of them."""
        async with self._looking:
            now = plane.clock.now()
            if self._seen is None or not timedelta() <= now - self._seen[0] < KEPT:
                self._seen = now, await self._silent(plane)
            silent = self._seen[1]
        if silent:
            raise NotReady(silent)

    async def _silent(self, plane: ControlPlane) -> list[str]:
        parts: Mapping[str, Awaitable[object]] = {
            "store": plane.store.get(QUEUES.name, ["default"]),
            "queue": plane.queue.publish(CONTROL_TOPIC, [_NOBODY]),
            "blobs": plane.blobs.list(_NO_BLOB),
        }
        limited = (asyncio.wait_for(part, self.seconds) for part in parts.values())
        answers = await asyncio.gather(*limited, return_exceptions=True)
        failures = {
            part: answer
            for part, answer in zip(parts, answers, strict=True)
            if isinstance(answer, Exception)
        }
        for part, error in failures.items():
            logger.warning("%s: no answer: %s", part, str(error) or type(error).__name__)
        return list(failures)
