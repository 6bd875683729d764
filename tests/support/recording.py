"""Ports that remember what was asked of them and let a test step in before each operation."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from xmcloud.core.ports import (
    Delivery,
    Document,
    Message,
    Page,
    Query,
    Queue,
    Store,
    Subscription,
    Version,
    Write,
)


async def _nothing(operation: str) -> None:
    """Steps in nowhere."""


@dataclass
class Recording:
    """What a control plane asked of its ports.

    `calls` counts operations by name ("store.commit", "queue.publish"); `before` is awaited
    ahead of each with that name, and may raise or do something else meanwhile. Operations that
    are under way together are done one by one, in the order of asking: a run can be repeated.
    """

    queries: set[Query] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    before: Callable[[str], Awaitable[None]] = _nothing
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def reset(self) -> None:
        self.before = _nothing

    def once(self, operation: str, work: Callable[[], Awaitable[object]]) -> None:
        """Does that work ahead of the next operation of that name, and of no later one."""

        async def before(name: str) -> None:
            if name == operation:
                self.reset()
                await work()

        self.before = before

    async def note(self, operation: str) -> None:
        self.calls[operation] += 1
        await self.before(operation)

    @asynccontextmanager
    async def operation(self, name: str) -> AsyncIterator[None]:
        await self.note(name)
        async with self._turn:
            yield


class RecordedStore:
    """A `Store`."""

    def __init__(self, store: Store, recording: Recording) -> None:
        self._store, self._recording = store, recording

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        async with self._recording.operation("store.get"):
            return await self._store.get(collection, ids)

    async def find(self, query: Query) -> Page:
        self._recording.queries.add(query.page(0, None))
        async with self._recording.operation("store.find"):
            return await self._store.find(query)

    async def count(self, query: Query) -> int:
        self._recording.queries.add(query.page(0, None))
        async with self._recording.operation("store.count"):
            return await self._store.count(query)

    async def total(self, query: Query, field: str) -> float:
        self._recording.queries.add(query.page(0, None))
        async with self._recording.operation("store.total"):
            return await self._store.total(query, field)

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        async with self._recording.operation("store.commit"):
            return await self._store.commit(writes)

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        async with self._recording.operation("store.apply"):
            return await self._store.apply(writes)

    async def close(self) -> None:
        await self._store.close()


class RecordedQueue:
    """A `Queue`."""

    def __init__(self, queue: Queue, recording: Recording) -> None:
        self._queue, self._recording = queue, recording

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        async with self._recording.operation("queue.subscribe"):
            await self._queue.subscribe(subscriptions)

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        async with self._recording.operation("queue.unsubscribe"):
            await self._queue.unsubscribe(subscriptions)

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        async with self._recording.operation("queue.publish"):
            await self._queue.publish(topic, messages)

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        await self._recording.note("queue.pull")
        return await self._queue.pull(subscriptions, limit, wait)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        async with self._recording.operation("queue.acknowledge"):
            await self._queue.acknowledge(deliveries)

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        async with self._recording.operation("queue.release"):
            await self._queue.release(deliveries, delay)

    async def close(self) -> None:
        await self._queue.close()
