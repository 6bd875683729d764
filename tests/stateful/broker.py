"""A queue that does to messages whatever a broker is allowed to do, at a test's choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from xmcloud.core.errors import NotFound, Unavailable
from xmcloud.core.ports import Clock, Delivery, Message, Subscription

DEADLINE = timedelta(seconds=10)


@dataclass
class Copy:
    """A subscription's copy of a message."""

    subscription: Subscription
    message: Message
    due: datetime
    receipt: str


class UnreliableQueue:
    """`Queue` in memory. While `down` it confirms nothing, and keeps every second message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._receipts = count()
        self._subscriptions: list[Subscription] = []
        self.copies: list[Copy] = []
        self.down = False

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        new = [each for each in subscriptions if each not in self._subscriptions]
        self._subscriptions.extend(new)

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = [s for s in self._subscriptions if s not in subscriptions]
        self.copies = [copy for copy in self.copies if copy.subscription not in subscriptions]

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        kept = messages[1::2] if self.down else messages
        for message in kept:
            for subscription in self._subscriptions:
                wanted = message.audience in ("", subscription.audience)
                if subscription.topic == topic and wanted:
                    self.copies.append(self._copy(subscription, message))
        if self.down and messages:
            raise Unavailable("The broker does not answer.")

    def _copy(self, subscription: Subscription, message: Message) -> Copy:
        return Copy(subscription, message, self._clock.now(), str(next(self._receipts)))

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        """What is there now, in the order of `copies`; never waits."""
        for subscription in subscriptions:
            if subscription not in self._subscriptions:
                raise NotFound("subscription", f"{subscription}")
        now = self._clock.now()
        deliveries: list[Delivery] = []
        for subscription in subscriptions:
            for copy in self.copies:
                here = copy.subscription == subscription and copy.due <= now
                if here and len(deliveries) < limit:
                    copy.due, copy.receipt = now + DEADLINE, str(next(self._receipts))
                    deliveries.append(Delivery(subscription, copy.message, copy.receipt))
        return deliveries

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        receipts = {delivery.receipt for delivery in deliveries}
        self.copies = [copy for copy in self.copies if copy.receipt not in receipts]

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        receipts = {delivery.receipt for delivery in deliveries}
        for copy in self.copies:
            if copy.receipt in receipts:
                copy.due = self._clock.now() + timedelta(seconds=delay)
                copy.receipt = str(next(self._receipts))

    async def close(self) -> None:
        """Holds nothing."""

    def waiting(self, subscription: Subscription) -> int:
        """Copies that are there or will come."""
        return sum(copy.subscription == subscription for copy in self.copies)

    def duplicate(self, copy: Copy) -> None:
        self.copies.append(self._copy(copy.subscription, copy.message))

    def drop(self, copy: Copy) -> None:
        self.copies.remove(copy)

    def delay(self, copy: Copy, seconds: float) -> None:
        copy.due = max(copy.due, self._clock.now() + timedelta(seconds=seconds))

    def reorder(self, copy: Copy) -> None:
        """To the front of everything."""
        self.copies.remove(copy)
        self.copies.insert(0, copy)
