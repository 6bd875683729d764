"""A queue's receiving half through the HTTP API, for workers without a broker of their own."""

import asyncio
from collections.abc import Sequence

from xmcloud.core.errors import NotFound
from xmcloud.core.ports import Delivery, Message, Subscription
from xmcloud.core.worker_protocol import DeliveryRef, Pull, Settle, SubscriptionRef
from xmcloud.worker.client import ApiClient, Refused

_SETTLED_TOGETHER = 1000


class RemoteQueue:
    """A `Consumer`. Methods raise `Unavailable` while the API does not answer."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._pulls: set[asyncio.Task[list[Delivery]]] = set()
        self._closed = False

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        if self._closed:
            return []
        task = asyncio.create_task(self._pull(subscriptions, limit, wait))
        self._pulls.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed and task.cancelled():
                return []
            raise
        finally:
            task.cancel()
            self._pulls.discard(task)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self._settle(deliveries, None)

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        await self._settle(deliveries, delay)

    async def close(self) -> None:
        self._closed = True
        for task in self._pulls:
            task.cancel()

    async def _pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        refs = tuple(SubscriptionRef(topic=s.topic, audience=s.audience) for s in subscriptions)
        try:
            request = Pull(subscriptions=refs, limit=limit, wait_seconds=wait)
            pulled = await self._client.pull(request)
        except Refused as error:
            if error.problem.status == NotFound.status:
                names = ", ".join(f"{ref.topic}/{ref.audience}" for ref in refs)
                raise NotFound("subscription among", names) from error
            raise
        return [
            Delivery(
                Subscription(ref.subscription.topic, ref.subscription.audience),
                Message(ref.audience, ref.body),
                ref.receipt,
            )
            for ref in pulled.deliveries
        ]

    async def _settle(self, deliveries: Sequence[Delivery], delay: float | None) -> None:
        refs = [
            DeliveryRef(
                subscription=SubscriptionRef(
                    topic=delivery.subscription.topic, audience=delivery.subscription.audience
                ),
                audience=delivery.message.audience,
                body=delivery.message.body,
                receipt=delivery.receipt,
            )
            for delivery in deliveries
        ]
        for start in range(0, len(refs), _SETTLED_TOGETHER):
            some = tuple(refs[start : start + _SETTLED_TOGETHER])
            await self._client.settle(Settle(deliveries=some, delay_seconds=delay))
