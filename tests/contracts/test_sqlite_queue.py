"""What the queue on SQLite promises beyond the port: exact instants, idleness, other processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from xmcloud.adapters.sqlite import SqliteQueue
from xmcloud.core.errors import CorruptStore, NotFound
from xmcloud.core.ports import Delivery, Message, Subscription

pytestmark = pytest.mark.anyio

ONE = Subscription("topic", "one")
MICROSECOND = 1e-6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def operations() -> list[str]:
    return []


@pytest.fixture
async def queue(
    path: Path, clock: ManualClock, operations: list[str], anyio_backend: str
) -> AsyncIterator[SqliteQueue]:
    queue = SqliteQueue(path, clock, lambda kind, _: operations.append(kind))
    await queue.subscribe([ONE])
    operations.clear()
    yield queue
    await queue.close()


async def take(queue: SqliteQueue) -> list[Delivery]:
    return await queue.pull([ONE], 10, 0)


async def test_a_message_comes_again_at_its_deadline_and_not_before(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    await queue.publish("topic", [Message("", "x")])
    assert len(await take(queue)) == 1
    clock.advance(10 - MICROSECOND)
    assert await take(queue) == []
    clock.advance(MICROSECOND)
    assert [delivery.message.body for delivery in await take(queue)] == ["x"]


async def test_a_released_message_comes_again_at_the_end_of_its_delay_and_not_before(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    await queue.publish("topic", [Message("", "x")])
    await queue.release(await take(queue), 90)
    clock.advance(90 - MICROSECOND)
    assert await take(queue) == []
    clock.advance(MICROSECOND)
    assert len(await take(queue)) == 1


async def test_a_waiting_pull_meets_the_deadline(queue: SqliteQueue, clock: ManualClock) -> None:
    await queue.publish("topic", [Message("", "x")])
    await take(queue)
    pull = asyncio.ensure_future(queue.pull([ONE], 10, 100))
    await clock.sleeper()
    clock.advance(10)
    assert len(await asyncio.wait_for(pull, 10)) == 1


async def test_a_waiting_pull_learns_of_a_sooner_release(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    await queue.publish("topic", [Message("", "x")])
    deliveries = await take(queue)
    pull = asyncio.ensure_future(queue.pull([ONE], 10, 100))
    await clock.sleeper()
    await queue.release(deliveries, 5)
    await clock.sleeper()
    clock.advance(5)
    assert len(await asyncio.wait_for(pull, 10)) == 1


async def test_a_pull_ends_empty_when_its_wait_is_over(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    pull = asyncio.ensure_future(queue.pull([ONE], 10, 20))
    await clock.sleeper()
    clock.advance(20)
    assert await asyncio.wait_for(pull, 10) == []


async def test_the_receipt_of_an_earlier_delivery_settles_nothing(
    queue: SqliteQueue, clock: ManualClock
) -> None:
    await queue.publish("topic", [Message("", "x")])
    first = await take(queue)
    clock.advance(10)
    second = await take(queue)
    await queue.acknowledge(first)
    await queue.release(first, 0)
    assert await take(queue) == []
    clock.advance(10)
    assert len(await take(queue)) == len(second) == 1


async def test_pulls_touch_the_database_only_when_something_may_be_there(
    queue: SqliteQueue, clock: ManualClock, operations: list[str]
) -> None:
    other = Subscription("topic", "other")
    await queue.subscribe([other])
    await queue.publish("topic", [Message("one", "x")])
    operations.clear()
    await queue.pull([ONE, other], 10, 0)
    assert operations == ["pull"]
    for _ in range(10):
        assert await queue.pull([ONE, other], 10, 0) == []
    waiting = asyncio.ensure_future(queue.pull([ONE, other], 10, 5))
    await clock.sleeper()
    clock.advance(5)
    assert await waiting == []
    assert operations == ["pull"]
    await queue.publish("topic", [Message("other", "y")])
    assert await queue.pull([ONE], 10, 0) == []
    assert operations == ["pull", "publish"]


async def test_messages_and_subscriptions_outlive_the_process(
    queue: SqliteQueue, path: Path, clock: ManualClock
) -> None:
    await queue.publish("topic", [Message("", "x")])
    await queue.close()
    again = SqliteQueue(path, clock)
    assert [delivery.message.body for delivery in await take(again)] == ["x"]
    await again.close()


async def publish_elsewhere(path: Path) -> None:
    helper = Path(__file__).with_name("sqlite_process.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(helper),
        "publish",
        str(path),
        "topic",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert await process.wait() == 0


async def test_a_waiting_pull_returns_what_another_process_publishes(
    queue: SqliteQueue, path: Path, clock: ManualClock, operations: list[str]
) -> None:
    pull = asyncio.ensure_future(queue.pull([ONE], 10, 50))
    await clock.sleeper()
    assert operations == ["pull"]
    await publish_elsewhere(path)
    (delivery,) = await asyncio.wait_for(pull, 10)
    assert delivery.message.body == "from another process"
    assert operations == ["pull", "pull"]


async def test_a_release_wakes_another_process(
    queue: SqliteQueue, path: Path, clock: ManualClock
) -> None:
    other = SqliteQueue(path, clock)
    await queue.publish("topic", [Message("", "x")])
    deliveries = await take(queue)
    pull = asyncio.ensure_future(other.pull([ONE], 10, 50))
    await clock.sleeper()
    await queue.release(deliveries, 0)
    assert len(await asyncio.wait_for(pull, 10)) == 1
    await other.close()


async def test_what_a_dead_process_left_is_removed(queue: SqliteQueue, path: Path) -> None:
    await take(queue)
    folder = path.with_name("queue.db-wakeups")
    (own,) = folder.iterdir()
    os.mkfifo(folder / "left")
    await queue.publish("topic", [Message("", "x")])
    assert list(folder.iterdir()) == [own]
    await queue.close()
    assert list(folder.iterdir()) == []


async def test_a_subscription_that_was_not_made_is_not_found(queue: SqliteQueue) -> None:
    with pytest.raises(NotFound):
        await queue.pull([Subscription("topic", "nobody")], 1, 0)
    await queue.pull([ONE], 1, 0)
    await queue.unsubscribe([ONE])
    with pytest.raises(NotFound):
        await queue.pull([ONE], 1, 0)


async def test_a_file_that_is_no_database_is_named(no_database: Path, clock: ManualClock) -> None:
    with pytest.raises(CorruptStore, match=str(no_database)):
        SqliteQueue(no_database, clock)
