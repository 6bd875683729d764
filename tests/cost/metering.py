"""A control plane whose every billed operation is counted, by who caused it."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.functions.worker_rig import Disk, Network
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.ports import (
    Clock,
    Delivery,
    Message,
    Subscription,
    Version,
    Write,
)

LEAST_BYTES = 1000
"""Of a request of Pub/Sub, as it is billed."""

_MESSAGE_BYTES = 20
"""What Pub/Sub counts of a message beside its body and attributes: its time."""

_HEADER_BYTES = 300
"""Of an HTTP answer."""

NOBODY = "nobody"


@dataclass
class Meter:
    """`counts` by actor: "person", "worker", "sweep", "event"; a test's own looks are nobody's.

    Kinds: request, read, write, publish, pubsub-bytes, class-a, class-b, document-bytes,
    blob-bytes, answer-bytes.
    """

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _actor: ContextVar[str] = field(default_factory=lambda: ContextVar("actor", default=NOBODY))

    @contextmanager
    def acting(self, actor: str) -> Iterator[None]:
        token = self._actor.set(actor)
        try:
            yield
        finally:
            self._actor.reset(token)

    def add(self, kind: str, count: int = 1) -> None:
        self.counts[self._actor.get()][kind] += count

    def of(self, actor: str) -> Counter[str]:
        return Counter(self.counts[actor])


class MeteredStore(SqliteStore):
    """Reads and writes are told by the store itself, as Firestore bills them."""

    def __init__(self, path: Path, meter: Meter) -> None:
        super().__init__(path, meter.add)
        self._meter = meter

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        versions = await super().commit(writes)
        self._note(writes)
        return versions

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        versions = await super().apply(writes)
        self._note([w for w, v in zip(writes, versions, strict=True) if v is not None])
        return versions

    def _note(self, writes: Sequence[Write]) -> None:
        """A document's first size: what changes later changes it little."""
        for write in writes:
            if write.version is None:
                self._meter.add("document-bytes", len(str(write.data)))


class MeteredQueue(SqliteQueue):
    def __init__(self, path: Path, clock: Clock, meter: Meter) -> None:
        super().__init__(path, clock)
        self._meter = meter

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        await super().publish(topic, messages)
        self._meter.add("publish", len(messages))
        self._meter.add("pubsub-bytes", _billed(messages))

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        deliveries = await super().pull(subscriptions, limit, wait)
        if deliveries:
            self._meter.add("pubsub-bytes", _billed([each.message for each in deliveries]))
        return deliveries


def _billed(messages: Sequence[Message]) -> int:
    sizes = (len(f"{m.body}audience{m.audience}".encode()) + _MESSAGE_BYTES for m in messages)
    return max(LEAST_BYTES, sum(sizes))


class MeteredBlobs(Disk):
    """Uploads, lists and compositions are operations of class A, downloads of class B."""

    def __init__(self, root: Path, meter: Meter) -> None:
        super().__init__(root)
        self._meter = meter
        self._sizes: dict[str, int] = {}

    async def put(self, key: str, data: bytes) -> None:
        self._meter.add("class-a")
        self._meter.add("blob-bytes", len(data) - self._sizes.get(key, 0))
        self._sizes[key] = len(data)
        await super().put(key, data)

    async def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        self._meter.add("class-b")
        return await super().get(key, start, end)

    async def list(
        self, prefix: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, int]]:
        self._meter.add("class-a")
        return await super().list(prefix, after, limit)

    async def compose(self, key: str, parts: Sequence[str]) -> None:
        self._meter.add("class-a", 2)
        await super().compose(key, parts)


class MeteredNetwork(Network):
    """The way of one actor to the API. `said` are the bodies that were answered, by last word.

    Requests begin while it is `passable`.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, meter: Meter, actor: str) -> None:
        super().__init__(inner)
        self._meter, self._actor = meter, actor
        self.under_way: list[httpx.Request] = []
        self.said: defaultdict[str, list[bytes]] = defaultdict(list)
        self.passable = asyncio.Event()
        self.passable.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.under_way.append(request)
        try:
            await self.passable.wait()
            with self._meter.acting(self._actor):
                self._meter.add("request")
                response = await super().handle_async_request(request)
                self._meter.add("answer-bytes", len(await response.aread()) + _HEADER_BYTES)
        finally:
            self.under_way.remove(request)
        self.said[request.url.path.rsplit("/", 1)[-1]].append(request.content)
        return response
