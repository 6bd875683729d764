"""Permits through Pub/Sub."""

import asyncio
import hashlib
import math
import os
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import grpc
from google.api_core import exceptions
from google.api_core.retry import AsyncRetry, if_exception_type
from google.pubsub_v1 import types
from google.pubsub_v1.services.publisher import PublisherAsyncClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from xmcloud.adapters import Observe, unobserved
from xmcloud.adapters.gcp.failures import TRANSIENT, translated
from xmcloud.adapters.gcp.pulls import HEAD_START, Pull, Pulls
from xmcloud.core.errors import NotFound, Unavailable
from xmcloud.core.ports import Delivery, Message, Subscription
from xmcloud.core.topics import BUILD_EVENTS, CONTROL_TOPIC

_ACK_DEADLINE = 10
_BATCH = 1000
_PULL_TIMEOUT = 120.0
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_CHECKED_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]

_T = TypeVar("_T")


class PubSubQueue:
    """The `Queue` port on Pub/Sub.

    Subscriptions have no retry policy: its shortest backoff would delay a release without
    delay by ten seconds and more. The delay of a release is the backoff.

    `observe` is told ("publish" | "pull", messages).
    """

    def __init__(
        self,
        project: str,
        observe: Observe = unobserved,
        *,
        deadline: float = 10.0,
    ) -> None:
        self._project = f"projects/{project}"
        self._observe = observe
        self._retry = AsyncRetry(
            predicate=if_exception_type(exceptions.Aborted, *TRANSIENT),
            initial=0.05,
            maximum=2.0,
            multiplier=2.0,
            timeout=deadline,
        )
        self._once: dict[str, Any] = {"retry": None, "timeout": deadline}
        self._api: tuple[PublisherAsyncClient, SubscriberAsyncClient] | None = None
        self._channel: grpc.aio.Channel | None = None
        self._pulls = Pulls(self._pull, self._give_back)
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await asyncio.gather(*map(self._subscribe, subscriptions))

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await asyncio.gather(*map(self._unsubscribe, subscriptions))

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        publisher, _ = self._clients()
        for batch in _batches(messages):
            request = types.PublishRequest(
                topic=self._topic(topic), messages=[_encoded(message) for message in batch]
            )
            try:
                await self._call(publisher.publish, request)
            except exceptions.NotFound:
                return
            self._observe("publish", len(batch))

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        """Raises `NotFound` for a subscription that nobody made, and `Unavailable`.

        A new pull has a moment to answer even if `wait` is 0.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + max(wait, HEAD_START)
        while not self._closed:
            ended = await self._pulls.first(subscriptions, limit, until)
            deliveries = self._accept(ended, limit)
            if deliveries or clock() >= until:
                return deliveries
        return []

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self._settle(deliveries, None)

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        await self._settle(deliveries, min(600, math.ceil(delay)))

    async def close(self) -> None:
        self._closed = True
        await self._pulls.cancel()
        await asyncio.gather(*self._background)
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await _settled(channel)
            await channel.close()

    async def _subscribe(self, subscription: Subscription) -> None:
        _, subscriber = self._clients()
        topic = self._topic(subscription.topic)
        request = _description(self._name(subscription), topic, subscription)
        with suppress(exceptions.AlreadyExists):
            try:
                await self._call(subscriber.create_subscription, request)
            except exceptions.NotFound:
                await self._create_topic(topic)
                await self._call(subscriber.create_subscription, request)

    async def _create_topic(self, topic: str) -> None:
        publisher, _ = self._clients()
        with suppress(exceptions.AlreadyExists):
            await self._call(publisher.create_topic, types.Topic(name=topic))

    async def _unsubscribe(self, subscription: Subscription) -> None:
        _, subscriber = self._clients()
        request = types.DeleteSubscriptionRequest(subscription=self._name(subscription))
        with suppress(exceptions.NotFound):
            await self._call(subscriber.delete_subscription, request)

    async def _pull(self, subscription: Subscription, limit: int) -> list[Any]:
        _, subscriber = self._clients()
        request = types.PullRequest(subscription=self._name(subscription), max_messages=limit)
        try:
            answer = await subscriber.pull(request, retry=None, timeout=_PULL_TIMEOUT)
        except exceptions.DeadlineExceeded:
            return []
        except exceptions.NotFound as error:
            where = f"{subscription.topic}/{subscription.audience}"
            raise NotFound("subscription", where, "Subscribe first.") from error
        return list(types.PullResponse.pb(answer).received_messages)

    def _give_back(self, pull: Pull[Any]) -> None:
        self._later(self.release(self._own(pull), 0))

    def _accept(self, ended: Sequence[Pull[Any]], limit: int) -> list[Delivery]:
        """Up to `limit` deliveries; gives the others back at once."""
        answered = [pull for pull in ended if not pull.task.cancelled()]
        failures = [error for pull in answered if (error := pull.task.exception())]
        own = [
            delivery
            for pull in answered
            if pull.task.exception() is None
            for delivery in self._own(pull)
        ]
        if failures and not own:
            with translated("Pub/Sub"):
                raise failures[0]
        if len(own) > limit:
            self._later(self.release(own[limit:], 0))
        kept = own[:limit]
        if kept:
            self._observe("pull", len(kept))
        return kept

    def _own(self, pull: Pull[Any]) -> list[Delivery]:
        """What is for this audience; forgets the rest, which the emulator does not filter."""
        own: list[Delivery] = []
        foreign: list[Delivery] = []
        audience = _token(pull.subscription.audience)
        for received in pull.task.result():
            sent_to = received.message.attributes.get("audience")
            message = Message(
                pull.subscription.audience if sent_to else "", received.message.data.decode()
            )
            delivery = Delivery(pull.subscription, message, received.ack_id)
            (own if sent_to in (None, audience) else foreign).append(delivery)
        if foreign:
            self._later(self.acknowledge(foreign))
        return own

    def _later(self, settling: Coroutine[Any, Any, None]) -> None:
        async def attempt() -> None:
            # A message that cannot be settled now comes again by itself.
            with suppress(Unavailable):
                await settling

        task = asyncio.get_running_loop().create_task(attempt())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _settle(self, deliveries: Sequence[Delivery], delay: int | None) -> None:
        receipts: defaultdict[Subscription, list[str]] = defaultdict(list)
        for delivery in deliveries:
            receipts[delivery.subscription].append(delivery.receipt)
        await asyncio.gather(
            *(
                self._settle_batch(self._name(subscription), batch, delay)
                for subscription, ids in receipts.items()
                for batch in _batches(ids)
            )
        )

    async def _settle_batch(self, name: str, ids: Sequence[str], delay: int | None) -> None:
        _, subscriber = self._clients()
        target: dict[str, Any] = {"subscription": name, "ack_ids": ids}
        # A receipt that never was one is no error either: the others come again.
        with suppress(exceptions.NotFound, exceptions.InvalidArgument):
            if delay is None:
                await self._call(subscriber.acknowledge, types.AcknowledgeRequest(target))
            else:
                change = types.ModifyAckDeadlineRequest(target, ack_deadline_seconds=delay)
                await self._call(subscriber.modify_ack_deadline, change)

    async def _call(self, method: Callable[..., Awaitable[Any]], request: Any) -> None:
        with translated("Pub/Sub"):
            await self._retry(method)(request, **self._once)

    def _clients(self) -> tuple[PublisherAsyncClient, SubscriberAsyncClient]:
        if self._api is None:
            self._channel = channel = _channel()
            self._api = (
                PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel)),
                SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel)),
            )
        return self._api

    def _topic(self, topic: str) -> str:
        ours = "" if topic == BUILD_EVENTS else "xmcloud-"
        return f"{self._project}/topics/{ours}{_token(topic)}"

    def _name(self, subscription: Subscription) -> str:
        id = f"xmcloud-{_token(subscription.topic)}.{_token(subscription.audience)}"
        return f"{self._project}/subscriptions/{id}"


def _channel() -> grpc.aio.Channel:
    emulator = os.environ.get("PUBSUB_EMULATOR_HOST")
    if emulator:
        return grpc.aio.insecure_channel(emulator, options=_CHANNEL_OPTIONS)
    return SubscriberGrpcAsyncIOTransport.create_channel(options=_CHANNEL_OPTIONS)


async def _settled(channel: grpc.aio.Channel) -> None:
    """Returns when the loop has been told of the end of all cancelled calls.

    gRPC tells it later, and wants it still open then. A call without time ends here, after them.
    """
    nothing: Any = channel.unary_unary("/nothing")
    with suppress(grpc.aio.AioRpcError):
        await nothing(b"", timeout=0)


def _description(name: str, topic: str, subscription: Subscription) -> types.Subscription:
    """Permits wait for seven days in a subscription that never expires; control hints an hour.

    The server wants the expiration to be longer than the retention.
    """
    control = subscription.topic == CONTROL_TOPIC
    audience = _token(subscription.audience)
    return types.Subscription(
        name=name,
        topic=topic,
        filter=f'attributes.audience = "{audience}" OR NOT attributes:audience',
        ack_deadline_seconds=_ACK_DEADLINE,
        message_retention_duration=_HOUR if control else 7 * _DAY,
        expiration_policy=types.ExpirationPolicy(ttl=_DAY if control else None),
    )


def _encoded(message: Message) -> types.PubsubMessage:
    attributes = {"audience": _token(message.audience)} if message.audience else {}
    return types.PubsubMessage(data=message.body.encode(), attributes=attributes)


def _token(name: str) -> str:
    """The name itself if Pub/Sub allows it everywhere, else its hash."""
    if _CHECKED_NAME.fullmatch(name):
        return name
    return f"~{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
