"""What the queue over Pub/Sub does beyond the contract, on Google's emulator."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta

import grpc
import pytest
from google.pubsub_v1 import types as pubsub
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from tests.emulator.proxy import NOBODY, Proxy
from xmcloud.adapters.gcp.pubsub import PubSubQueue
from xmcloud.core.errors import NotFound, Unavailable
from xmcloud.core.ports import Delivery, Message, Subscription

pytestmark = [pytest.mark.anyio, pytest.mark.emulator]
before_pubsub = pytest.mark.parametrize("proxy", ["PUBSUB_EMULATOR_HOST"], indirect=True)

LONG = 7.0
"""Seconds; ends a test that would fail, less than the acknowledgement deadline."""


@pytest.fixture
async def queues(
    gcp_project: str, anyio_backend: str
) -> AsyncIterator[tuple[PubSubQueue, PubSubQueue]]:
    """The queue as two processes have it."""
    pair = (PubSubQueue(gcp_project), PubSubQueue(gcp_project))
    yield pair
    for queue in pair:
        await queue.close()


def bodies(deliveries: list[Delivery]) -> list[str]:
    return sorted(delivery.message.body for delivery in deliveries)


async def take(queue: PubSubQueue, subscription: Subscription, count: int) -> list[str]:
    """The bodies of `count` deliveries, acknowledged."""
    found: list[str] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            deliveries = await queue.pull([subscription], count, LONG)
            await queue.acknowledge(deliveries)
            found += bodies(deliveries)
    return sorted(found)


HIGH, LOW = Subscription("high", "pool"), Subscription("low", "pool")


async def test_what_comes_after_a_pull_has_ended_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([HIGH, LOW])
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await mine.publish("low", [Message("", "late")])
    assert await take(other, LOW, 1) == ["late"]


async def test_what_comes_after_a_pull_was_cancelled_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([LOW])
    pull = asyncio.ensure_future(mine.pull([LOW], 1, LONG))
    assert await mine.pull([LOW], 1, 0) == []
    pull.cancel()
    await asyncio.wait({pull})
    await mine.publish("low", [Message("", "1"), Message("", "2"), Message("", "3")])
    assert await take(other, LOW, 3) == ["1", "2", "3"]


async def test_what_is_beyond_the_limit_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([LOW])
    assert await mine.pull([LOW], 10, 0) == []
    await mine.publish("low", [Message("", str(n)) for n in range(5)])
    kept = await mine.pull([LOW], 1, LONG)
    assert len(kept) == 1
    rest = await take(other, LOW, 4)
    assert sorted(bodies(kept) + rest) == ["0", "1", "2", "3", "4"]
    await mine.acknowledge(kept)


async def test_what_a_lower_subscription_brought_beyond_the_limit_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([HIGH, LOW])
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await asyncio.gather(
        mine.publish("low", [Message("", "low")]), mine.publish("high", [Message("", "high")])
    )
    (first,) = await mine.pull([HIGH, LOW], 1, LONG)
    await mine.acknowledge([first])
    (rest,) = {"high", "low"} - {first.message.body}
    assert await take(other, HIGH if rest == "high" else LOW, 1) == [rest]


async def test_close_leaves_nothing_running(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, _ = queues
    await mine.subscribe([HIGH, LOW])
    before = asyncio.all_tasks()
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await mine.close()
    assert asyncio.all_tasks() <= before
    assert await mine.pull([HIGH, LOW], 1, LONG) == []


@before_pubsub
async def test_a_copy_for_another_audience_is_forgotten(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    await mine.publish("low", [Message("other", "not mine")])
    assert await mine.pull([LOW], 1, 0) == []
    await mine.close()
    acknowledged = [
        pubsub.AcknowledgeRequest.deserialize(sent) for sent in proxy.sent("Acknowledge")
    ]
    assert [len(request.ack_ids) for request in acknowledged] == [1]
    assert proxy.sent("ModifyAckDeadline") == []


@before_pubsub
async def test_a_publish_is_one_request_a_thousand_messages(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    await mine.publish("low", [Message("", f"{n:04}") for n in range(1001)])
    sent = [pubsub.PublishRequest.deserialize(request) for request in proxy.sent("Publish")]
    assert [len(request.messages) for request in sent] == [1000, 1]
    assert await take(mine, LOW, 1001) == [f"{n:04}" for n in range(1001)]


@before_pubsub
async def test_a_publish_whose_confirmation_was_lost_goes_out_again(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    proxy.lost_answers["Publish"] = 1
    await mine.publish("low", [Message("", "twice")])
    assert await take(mine, LOW, 2) == ["twice", "twice"]


@pytest.mark.parametrize("audience", ["", "Größer", "a/b", "goog", 'x" OR attributes:y', "a" * 300])
async def test_any_audience_has_a_subscription_of_its_own(
    queues: tuple[PubSubQueue, PubSubQueue], audience: str
) -> None:
    mine, _ = queues
    odd, plain = Subscription("low", audience), Subscription("low", "plain")
    await mine.subscribe([odd, plain])
    await mine.publish("low", [Message("plain", "1"), Message(audience, "2"), Message("", "3")])
    deliveries = await mine.pull([odd], 10, LONG)
    await mine.acknowledge(deliveries)
    assert Message(audience, "2") in [delivery.message for delivery in deliveries]
    assert "1" not in bodies(deliveries)


async def test_subscriptions_are_made_as_permits_and_control_hints_need_them(
    gcp_project: str, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, other = queues
    permits, control = Subscription("low", "pool"), Subscription("control", "worker-1")
    await asyncio.gather(mine.subscribe([permits, control]), other.subscribe([control, permits]))
    channel = grpc.aio.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"])
    client = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))

    async def made(id: str) -> pubsub.Subscription:
        return await client.get_subscription(
            subscription=f"projects/{gcp_project}/subscriptions/{id}"
        )

    permit = await made("xmcloud-low.pool")
    assert permit.topic == f"projects/{gcp_project}/topics/xmcloud-low"
    assert permit.filter == 'attributes.audience = "pool" OR NOT attributes:audience'
    assert permit.ack_deadline_seconds == 10
    assert permit.message_retention_duration == timedelta(days=7)
    assert "ttl" not in permit.expiration_policy
    assert "dead_letter_policy" not in permit
    assert "retry_policy" not in permit
    hint = await made("xmcloud-control.worker-1")
    assert hint.message_retention_duration == timedelta(hours=1)
    assert hint.expiration_policy.ttl == timedelta(days=1)
    await channel.close()


async def test_a_subscription_that_nobody_made_is_not_found(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    with pytest.raises(NotFound, match="low/pool"):
        await queues[0].pull([LOW], 1, 0)


async def test_a_broker_that_does_not_answer_is_unavailable(
    gcp_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", NOBODY)
    queue = PubSubQueue(gcp_project, deadline=0.2)
    delivery = Delivery(LOW, Message("", "x"), "receipt")
    for call in (
        queue.publish("low", [Message("", "x")]),
        queue.subscribe([LOW]),
        queue.unsubscribe([LOW]),
        queue.acknowledge([delivery]),
        queue.release([delivery], 0),
        queue.pull([LOW], 1, LONG),
    ):
        with pytest.raises(Unavailable):
            await call
    await queue.close()
