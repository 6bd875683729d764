"""The boundaries of the control plane. Each docstring is the contract that every adapter keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol, Self

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
Operator = Literal["==", "<", "<=", ">", ">="]
Direction = Literal["asc", "desc"]
Version = str

WRITES_LIMIT = 500
"""Writes in one call of a store."""

COMMIT_LIMIT = 3 * 1024 * 1024
"""Bytes of the documents in one commit. Firestore takes requests of 10 MiB, its emulator of 4."""


@dataclass(frozen=True, slots=True)
class Document:
    """A stored object and the version that a conditional write names."""

    id: str
    data: JsonObject
    version: Version


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one document; made by the named constructors only."""

    collection: str
    id: str
    data: JsonObject
    version: Version | None

    @classmethod
    def create(cls, collection: str, id: str, data: JsonObject) -> Self:
        """Holds only if no document has that id."""
        return cls(collection, id, data, None)

    @classmethod
    def replace(cls, collection: str, document: Document, data: JsonObject) -> Self:
        """Holds only if the document still has the version that was read."""
        return cls(collection, document.id, data, document.version)


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison of one top-level field with a scalar."""

    field: str
    operator: Operator
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Query:
    """A filtered, ordered slice of one collection. Ties are broken by id.

    The ids go in the direction of the last field of `order` (ascending without one), which is
    what an index of Firestore holds. Every field of `order` exists in every document that
    matches. `after` is the cursor of an
    earlier page of the same query.
    """

    collection: str
    where: tuple[Filter, ...] = ()
    order: tuple[tuple[str, Direction], ...] = ()
    limit: int = 100
    after: str | None = None

    @property
    def id_direction(self) -> Direction:
        return self.order[-1][1] if self.order else "asc"

    def page(self, limit: int, after: str | None) -> "Query":
        return replace(self, limit=limit, after=after)


@dataclass(frozen=True, slots=True)
class Page:
    """Documents in the query's order; `cursor` is None when none follow."""

    documents: list[Document]
    cursor: str | None


class PreconditionFailed(Exception):
    """A commit named a version that is no longer there; nothing was changed."""


class Store(Protocol):
    """Documents: JSON objects of at most 1 MiB, in collections, by id.

    Values come back with the type they went in with: 1.0 stays a float and 1 an int. An array
    holds no arrays (Firestore has none). Reads see every write that was answered before they
    began, from every process. There are no interactive transactions: load, decide, then commit
    under preconditions; whoever loses loads again.
    """

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        """The documents in the order of the ids, None where there is none. One round trip."""

    async def find(self, query: Query) -> Page:
        """A page of the query. Raises `UndeclaredIndex` if no declared index serves it."""

    async def count(self, query: Query) -> int:
        """How many documents match, `limit` and `after` ignored."""

    async def total(self, query: Query, field: str) -> float:
        """The sum of a field of those that match, `limit` and `after` ignored; 0 of none.

        What is no number there is left out. Raises `UndeclaredIndex` if no declared index serves
        the query in order of that field: sums are read from an index, too.
        """

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        """All the writes or none. Raises `PreconditionFailed` when one does not hold.

        Durable when it returns. At most `WRITES_LIMIT` writes, each document once; raises
        `TooLarge` above `COMMIT_LIMIT` bytes.
        """

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        """Each write by itself; None in place of one whose precondition did not hold.

        For independent changes: others may be seen before the call returns, and a crash may
        leave a part of them done. At most `WRITES_LIMIT` writes, each document once.
        """

    async def close(self) -> None:
        """Releases connections; the store is not used afterwards."""


@dataclass(frozen=True, slots=True)
class Message:
    """A hint sent through a topic. An empty audience means every subscription of the topic."""

    audience: str
    body: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """One audience's copy of a topic: the messages for it and those for everybody."""

    topic: str
    audience: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a message; `receipt` settles it."""

    subscription: Subscription
    message: Message
    receipt: str = field(repr=False)


class Consumer(Protocol):
    """The receiving half of a queue.

    Delivery is at least once and in no promised order: a message may come twice, late, or, after
    a crash of the broker, never. A delivery that is not settled within 10 s comes again, so that
    what was delivered to a process that is gone keeps nobody waiting for long.
    """

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        """Up to `limit` deliveries, earlier subscriptions first; returns with the first to arrive.

        Waits at most `wait` seconds (0: what is there now) and then returns an empty list. A
        message for another audience is never returned. Waiting costs no store operation. Raises
        `NotFound` for a subscription that was not made.
        """

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Forgets the messages; a receipt that was settled or has expired is no error."""

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        """Gives the messages back; they come again after about `delay` seconds (0 to 600)."""

    async def close(self) -> None:
        """Ends pulls under way and releases connections; again, it does nothing."""


class Queue(Consumer, Protocol):
    """Topics with subscriptions: each subscription has its own copy of every message for it."""

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Makes the topics and subscriptions that are not there yet; idempotent.

        A subscription receives what is published after it was made.
        """

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Removes the subscriptions and the messages that wait in them; idempotent."""

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        """Returns when the broker holds the messages. A topic nobody subscribed to drops them.

        Raises `Unavailable` when the broker did not confirm them all; some may have gone out.
        """


class Blobs(Protocol):
    """Bytes by key (`/`-separated, each part a checked name); for logs, diffs and archives."""

    async def put(self, key: str, data: bytes) -> None:
        """Writes the whole blob, replacing one of that key; readers see the old or the new.

        Durable when it returns. Raises `StorageFull`.
        """

    async def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes `start` to `end` (exclusive) of the blob. Raises `NotFound`."""

    async def compose(self, key: str, parts: Sequence[str]) -> None:
        """Makes one blob of those with the keys `parts`, in that order; they stay.

        One part or more; one may come several times. Replaces a blob of that key; readers see
        the old or the new. Memory holds little of it, whatever its size. Durable when it
        returns. Raises `NotFound` when a part is not there, and then changes nothing, and
        `StorageFull`.
        """

    async def list(
        self, prefix: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, int]]:
        """Keys that begin with `prefix` and their sizes in bytes, in order of key.

        Those that follow `after`, the first `limit` of them.
        """

    async def delete(self, prefix: str) -> None:
        """Removes every blob whose key begins with `prefix`; idempotent."""

    async def close(self) -> None:
        """Releases connections."""


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> datetime:
        """The time, aware and in UTC."""

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds`."""
