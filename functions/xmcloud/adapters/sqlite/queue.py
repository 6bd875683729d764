"""The queue on SQLite."""

import asyncio
import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from xmcloud.adapters import Observe, unobserved
from xmcloud.adapters.sqlite.database import Database
from xmcloud.adapters.sqlite.faults import explained
from xmcloud.adapters.sqlite.wakeups import Wakeups
from xmcloud.core.errors import NotFound
from xmcloud.core.ports import Clock, Delivery, Message, Subscription

DEADLINE = timedelta(seconds=10)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS subscriptions(
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, audience TEXT NOT NULL,
    UNIQUE (topic, audience)
);
CREATE TABLE IF NOT EXISTS messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT, subscription INTEGER NOT NULL, due INTEGER NOT NULL,
    settled INTEGER NOT NULL DEFAULT 0, audience TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_by_due ON messages(subscription, due, id);
"""
_SUBSCRIBE = "INSERT INTO subscriptions(topic, audience) VALUES (?, ?) ON CONFLICT DO NOTHING"
_EMPTY = """
DELETE FROM messages WHERE subscription =
    (SELECT id FROM subscriptions WHERE topic = ? AND audience = ?)
"""
_UNSUBSCRIBE = "DELETE FROM subscriptions WHERE topic = ? AND audience = ?"
_PUBLISH = """
INSERT INTO messages(subscription, due, audience, body)
SELECT id, ?, ?, ? FROM subscriptions WHERE topic = ? AND (? = '' OR audience = ?)
"""
_LOOK_UP = "SELECT id FROM subscriptions WHERE topic = ? AND audience = ?"
_TAKE = """
UPDATE messages SET due = ?, settled = settled + 1 WHERE id IN (
    SELECT id FROM messages WHERE due <= ? AND subscription = ? ORDER BY due, id LIMIT ?)
RETURNING id, settled, audience, body
"""
_NEXT_DUE = "SELECT min(due) FROM messages WHERE subscription = ?"
_ACKNOWLEDGE = "DELETE FROM messages WHERE id = ? AND settled = ?"
_RELEASE = "UPDATE messages SET due = ?, settled = settled + 1 WHERE id = ? AND settled = ?"

_RECEIPT = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOW = -math.inf
_NEVER = math.inf


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _receipt(delivery: Delivery) -> tuple[int, int]:
    """Ids that no message has for a receipt that was never given."""
    given = _RECEIPT.fullmatch(delivery.receipt)
    return (int(given[1]), int(given[2])) if given else (-1, -1)


def _take(
    connection: sqlite3.Connection, subscription: Subscription, limit: int, now: datetime
) -> tuple[list[Delivery], float]:
    """Deliveries, and when the next message is due."""
    found = connection.execute(_LOOK_UP, (subscription.topic, subscription.audience)).fetchone()
    if found is None:
        raise NotFound("subscription", f"{subscription.topic}/{subscription.audience}")
    values = _micros(now + DEADLINE), _micros(now), found[0], limit
    deliveries = [
        Delivery(subscription, Message(audience, body), f"{id}.{settled}")
        for id, settled, audience, body in connection.execute(_TAKE, values).fetchall()
    ]
    (due,) = connection.execute(_NEXT_DUE, found).fetchone()
    return deliveries, _NEVER if due is None else due


class SqliteQueue:
    """A `Queue` in one file; a power cut may lose the last moments, the end of a process nothing.

    What is due next is remembered for each subscription, so that a pull touches the database
    only when a message may be there: at first, after a publish or release in any process, and
    when a delay or deadline ends. `observe` is told ("subscribe" | "unsubscribe" | "publish" |
    "pull" | "acknowledge" | "release", messages) once for each access to the database.
    """

    def __init__(self, path: Path, clock: Clock, observe: Observe = unobserved) -> None:
        """Raises `CorruptStore`, `StorageFull` or `Unavailable`."""
        self._database = Database(path, "NORMAL", _SCHEMA)
        with explained(path):
            self._wakeups = Wakeups(path.with_name(f"{path.name}-wakeups"))
        self._clock = clock
        self._observe = observe
        self._due: dict[Subscription, float] = {}
        self._waiting: defaultdict[Subscription, set[asyncio.Future[None]]] = defaultdict(set)
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        rows = [(s.topic, s.audience) for s in subscriptions]
        await self._write("subscribe", [(_SUBSCRIBE, rows)])

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        rows = [(s.topic, s.audience) for s in subscriptions]
        await self._write("unsubscribe", [(_EMPTY, rows), (_UNSUBSCRIBE, rows)])
        for subscription in subscriptions:
            self._due.pop(subscription, None)

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        now = _micros(self._clock.now())
        rows = [(now, m.audience, m.body, topic, m.audience, m.audience) for m in messages]
        await self._write("publish", [(_PUBLISH, rows)])
        audiences = {message.audience for message in messages}
        for subscription in list(self._due):
            if subscription.topic == topic and audiences & {"", subscription.audience}:
                self._expect(subscription, _NOW)
        self._wakeups.notify()

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        """Raises `NotFound` for a subscription that was not made."""
        with explained(self._database.path):
            self._wakeups.listen(self._anything_may_be_due)
        end = self._clock.now() + timedelta(seconds=wait)
        while not self._closed:
            now = self._clock.now()
            ready = [s for s in subscriptions if self._due.get(s, _NOW) <= _micros(now)]
            if ready:
                deliveries = await self._take(ready, limit, now)
                if deliveries:
                    return deliveries
            elif now >= end:
                break
            else:
                await self._wait(subscriptions, now, end)
        return []

    async def _take(
        self, subscriptions: Sequence[Subscription], limit: int, now: datetime
    ) -> list[Delivery]:
        """What is there; publishes meanwhile count as later ones."""
        next_due: dict[Subscription, float] = dict.fromkeys(subscriptions, _NOW)
        self._due.update(dict.fromkeys(subscriptions, _NEVER))

        def take(connection: sqlite3.Connection) -> list[Delivery]:
            found: list[Delivery] = []
            for subscription in subscriptions:
                room = limit - len(found)
                if room == 0:
                    break
                taken, next_due[subscription] = _take(connection, subscription, room, now)
                found += taken
            return found

        writing = asyncio.ensure_future(self._database.write(take, limit))
        try:
            deliveries = await asyncio.shield(writing)
        except asyncio.CancelledError:
            writing.add_done_callback(self._give_back)
            raise
        finally:
            for subscription, due in next_due.items():
                self._expect(subscription, due)
        self._observe("pull", len(deliveries))
        return deliveries

    def _give_back(self, taking: asyncio.Future[list[Delivery]]) -> None:
        """So that what a cancelled pull took does not wait for the deadline."""
        if not (taking.cancelled() or taking.exception() or self._closed):
            task = asyncio.ensure_future(self.release(taking.result(), 0))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _wait(
        self, subscriptions: Sequence[Subscription], now: datetime, end: datetime
    ) -> None:
        """Until `end`, until the next message is due or until one is expected sooner."""
        due = min((self._due.get(s, _NOW) for s in subscriptions), default=_NEVER)
        seconds = min((end - now).total_seconds(), (due - _micros(now)) / 1e6)
        woken = asyncio.get_running_loop().create_future()
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        for subscription in subscriptions:
            self._waiting[subscription].add(woken)
        try:
            await asyncio.wait({woken, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            for subscription in subscriptions:
                self._waiting[subscription].discard(woken)

    def _expect(self, subscription: Subscription, due: float) -> None:
        if due < self._due.get(subscription, _NEVER):
            self._due[subscription] = due
            self._wake(self._waiting[subscription])

    def _anything_may_be_due(self) -> None:
        for subscription in list(self._due):
            self._expect(subscription, _NOW)

    @staticmethod
    def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self._write("acknowledge", [(_ACKNOWLEDGE, [_receipt(d) for d in deliveries])])

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        due = _micros(self._clock.now() + timedelta(seconds=delay))
        await self._write("release", [(_RELEASE, [(due, *_receipt(d)) for d in deliveries])])
        for delivery in deliveries:
            self._expect(delivery.subscription, due)
        self._wakeups.notify()

    async def _write(
        self, kind: str, changes: Sequence[tuple[str, Sequence[tuple[object, ...]]]]
    ) -> None:
        size = len(changes[0][1])
        if size == 0:
            return

        def make(connection: sqlite3.Connection) -> None:
            for sql, rows in changes:
                connection.executemany(sql, rows)

        await self._database.write(make, size)
        self._observe(kind, size)

    async def close(self) -> None:
        self._closed = True
        for waiting in self._waiting.values():
            self._wake(waiting)
        await asyncio.gather(*self._background)
        self._wakeups.close()
        await self._database.close()
