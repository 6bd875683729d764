"""What every `Queue` promises."""

import asyncio
import secrets
import time
from collections.abc import Callable

import pytest

from xmcloud.core.ports import Delivery, Message, Queue, Subscription

pytestmark = pytest.mark.anyio

LONG = 10.0
"""Seconds; ends a test that would fail, delays none that passes."""
SOON = 0.2


@pytest.fixture
def topic() -> str:
    return f"queue-{secrets.token_hex(4)}"


async def drain(queue: Queue, subscription: Subscription, count: int) -> list[Delivery]:
    """At least `count` deliveries, acknowledged."""
    found: list[Delivery] = []
    end = time.monotonic() + LONG
    while len(found) < count and time.monotonic() < end:
        deliveries = await queue.pull([subscription], count, LONG)
        await queue.acknowledge(deliveries)
        found += deliveries
    return found


def bodies(deliveries: list[Delivery]) -> list[str]:
    return sorted(delivery.message.body for delivery in deliveries)


async def test_each_subscription_has_its_own_copy(queue: Queue, topic: str) -> None:
    one, two = Subscription(topic, "one"), Subscription(topic, "two")
    await queue.subscribe([one, two])
    await queue.publish(topic, [Message("", "hello")])
    for subscription in (one, two):
        (delivery,) = await drain(queue, subscription, 1)
        assert delivery.message == Message("", "hello")
        assert delivery.subscription == subscription


async def test_an_audience_gets_its_own_messages_and_those_for_everybody(
    queue: Queue, topic: str
) -> None:
    one, two = Subscription(topic, "one"), Subscription(topic, "two")
    await queue.subscribe([one, two])
    await queue.publish(topic, [Message("one", "1"), Message("two", "2"), Message("", "all")])
    assert bodies(await drain(queue, one, 2)) == ["1", "all"]
    assert bodies(await drain(queue, two, 2)) == ["2", "all"]
    assert await queue.pull([one, two], 10, 0) == []


async def test_topics_are_apart(queue: Queue, topic: str) -> None:
    here, there = Subscription(topic, "one"), Subscription(f"{topic}-b", "one")
    await queue.subscribe([here, there])
    await queue.publish(topic, [Message("", "here")])
    assert await queue.pull([there], 10, 0) == []
    assert bodies(await drain(queue, here, 1)) == ["here"]


async def test_a_topic_nobody_subscribed_to_drops_what_is_published(
    queue: Queue, topic: str
) -> None:
    await queue.publish(topic, [Message("", "dropped")])
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    assert await queue.pull([subscription], 10, 0) == []


async def test_a_subscription_receives_what_is_published_after_it_was_made(
    queue: Queue, topic: str
) -> None:
    early, late = Subscription(topic, "early"), Subscription(topic, "late")
    await queue.subscribe([early])
    await queue.publish(topic, [Message("", "before")])
    await queue.subscribe([early, late])
    await queue.publish(topic, [Message("", "after")])
    assert bodies(await drain(queue, late, 1)) == ["after"]
    assert bodies(await drain(queue, early, 2)) == ["after", "before"]


async def test_unsubscribe_removes_what_waits(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    await queue.publish(topic, [Message("", "waits")])
    await queue.unsubscribe([subscription])
    await queue.unsubscribe([subscription])
    await queue.publish(topic, [Message("", "dropped")])
    await queue.subscribe([subscription])
    assert await queue.pull([subscription], 10, 0) == []


async def test_acknowledged_messages_never_come_again(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    await queue.publish(topic, [Message("", "once")])
    deliveries = await drain(queue, subscription, 1)
    await queue.acknowledge(deliveries)
    await queue.release(deliveries, 0)
    assert await queue.pull([subscription], 10, SOON) == []


async def test_a_message_under_way_comes_to_nobody_else(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    await queue.publish(topic, [Message("", "one")])
    deliveries = await queue.pull([subscription], 10, LONG)
    assert await queue.pull([subscription], 10, SOON) == []
    await queue.acknowledge(deliveries)


async def test_a_released_message_comes_again_at_once_or_after_its_delay(
    queue: Queue, topic: str
) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    await queue.publish(topic, [Message("", "again")])
    for delay in (0, 1):
        deliveries = await queue.pull([subscription], 10, LONG)
        assert bodies(deliveries) == ["again"]
        released = time.monotonic()
        await queue.release(deliveries, delay)
    assert await queue.pull([subscription], 10, 0) == []
    assert bodies(await drain(queue, subscription, 1)) == ["again"]
    assert time.monotonic() - released >= delay


async def test_pull_takes_up_to_its_limit_from_earlier_subscriptions_first(
    queue: Queue, topic: str
) -> None:
    first, second = Subscription(topic, "first"), Subscription(topic, "second")
    await queue.subscribe([first, second])
    await queue.publish(topic, [Message("second", "b")] * 2)
    await queue.publish(topic, [Message("first", "a")] * 2)
    order = []
    for _ in range(4):
        (delivery,) = await queue.pull([first, second], 1, LONG)
        await queue.acknowledge([delivery])
        order.append(delivery.message.body)
    assert order == ["a", "a", "b", "b"]


async def test_pull_waits_no_longer_than_asked(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    began = time.monotonic()
    assert await queue.pull([subscription], 1, SOON) == []
    assert time.monotonic() - began >= SOON * 0.9


async def test_a_waiting_pull_returns_with_the_first_message(queue: Queue, topic: str) -> None:
    one, two = Subscription(topic, "one"), Subscription(topic, "two")
    await queue.subscribe([one, two])
    pull = asyncio.ensure_future(queue.pull([one, two], 10, 2 * LONG))
    assert await queue.pull([one, two], 10, 0) == []
    await queue.publish(topic, [Message("two", "now")])
    assert bodies(await asyncio.wait_for(pull, LONG)) == ["now"]


async def test_concurrent_pulls_share_the_messages(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    pulls = [asyncio.ensure_future(queue.pull([subscription], 1, LONG)) for _ in range(5)]
    await queue.publish(topic, [Message("", str(n)) for n in range(5)])
    found = [delivery for deliveries in await asyncio.gather(*pulls) for delivery in deliveries]
    assert bodies(found) == ["0", "1", "2", "3", "4"]
    await queue.acknowledge(found)


async def test_a_cancelled_pull_keeps_no_message(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    pull = asyncio.ensure_future(queue.pull([subscription], 1, LONG))
    assert await queue.pull([subscription], 1, 0) == []
    published = asyncio.ensure_future(queue.publish(topic, [Message("", "kept")]))
    await asyncio.wait({published})
    pull.cancel()
    await asyncio.wait({pull})
    assert bodies(await drain(queue, subscription, 1)) == ["kept"]


async def test_500_messages_in_one_call(queue: Queue, topic: str) -> None:
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    await queue.publish(topic, [Message("", f"{n:03}") for n in range(500)])
    await queue.publish(topic, [])
    found = await drain(queue, subscription, 500)
    assert bodies(found) == [f"{n:03}" for n in range(500)]


async def test_close_ends_pulls_under_way(open_queue: Callable[[], Queue], topic: str) -> None:
    queue = open_queue()
    subscription = Subscription(topic, "one")
    await queue.subscribe([subscription])
    pull = asyncio.ensure_future(queue.pull([subscription], 1, 6 * LONG))
    assert await queue.pull([subscription], 1, 0) == []
    await queue.close()
    assert await asyncio.wait_for(pull, LONG) == []
