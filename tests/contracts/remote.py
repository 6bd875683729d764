"""The embedded queue as its users see it: published in the API's process, pulled over HTTP."""

from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.functions.api import TOKEN, application
from tests.support.wire import TransportWire
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.ports import Delivery, Message, Subscription
from xmcloud.worker.client import ApiClient
from xmcloud.worker.remote_queue import RemoteQueue


class QueueThroughTheApi:
    """A `Queue` whose receiving half is the worker's."""

    def __init__(self, home: Path) -> None:
        clock = SystemClock()
        self._plane = ControlPlane(
            SqliteStore(home / "store.db"),
            SqliteQueue(home / "queue.db", clock),
            FileBlobs(home / "blobs"),
            clock,
        )
        transport = httpx.ASGITransport(application(self._plane, home))
        self._wire = TransportWire(transport, TOKEN)
        self._consumer = RemoteQueue(ApiClient(self._wire, "http://api"))

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await self._plane.queue.subscribe(subscriptions)

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await self._plane.queue.unsubscribe(subscriptions)

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        await self._plane.queue.publish(topic, messages)

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        return await self._consumer.pull(subscriptions, limit, wait)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self._consumer.acknowledge(deliveries)

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        await self._consumer.release(deliveries, delay)

    async def close(self) -> None:
        await self._consumer.close()
        await self._wire.close()
        await self._plane.queue.close()
        await self._plane.store.close()
