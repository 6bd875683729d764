"""From a free slot to a claimed job: pull permits, claim, settle the permits."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Collection, Sequence
from typing import Never, Protocol

from xmcloud.core.errors import NotFound, StorageFull, Unavailable
from xmcloud.core.ports import Consumer, Delivery
from xmcloud.core.topics import permit_subscription, queue_topic
from xmcloud.core.worker_protocol import QueueAnswer, SyncAnswer
from xmcloud.worker.disk import Disk
from xmcloud.worker.eviction import Room
from xmcloud.worker.gate import Gate
from xmcloud.worker.slots import Slots

_LONGEST_WAIT_SECONDS = 300.0
_ALL_THERE_ARE = 1000
_FIRST_DELAY_SECONDS = 10.0
_LONGEST_DELAY_SECONDS = 600.0
_PAUSE_SECONDS = 2.0
_TO_FREE_BYTES = 2**30
_LOST_RACES_SECONDS = 0.2

logger = logging.getLogger("xmcloud.worker")


class Claims(Protocol):
    """What the loop needs of the conversation."""

    async def claim(self, queues: Collection[str]) -> SyncAnswer:
        """Jobs of those queues for the free slots; they are running when this returns."""


class Permits:
    """The loop that fills free slots.

    It is hungry for queues in which more waits than fitted: of those, and of the ones it prefers
    to them, it claims without a permit as soon as a slot is free. At first these are all. When
    nothing more waits it takes along the permits that were left over, and waits for the next.
    """

    def __init__(
        self,
        consumer: Consumer,
        conversation: Claims,
        slots: Slots,
        queues: Sequence[str],
        pool: str,
        disk: Disk,
        room: Room,
        gate: Gate,
    ) -> None:
        self._consumer = consumer
        self._conversation = conversation
        self._slots = slots
        self._queues = queues
        self._subscriptions = [permit_subscription(queue, pool) for queue in queues]
        self._disk = disk
        self._room = room
        self._gate = gate
        self._hungry = set(queues)
        self._tidying = False
        self._delays: defaultdict[str, float] = defaultdict(lambda: _FIRST_DELAY_SECONDS)
        self._background: set[asyncio.Task[None]] = set()
        self._later: asyncio.Task[None] | None = None

    async def run(self) -> Never:
        try:
            while True:
                await self._slots.available.wait()
                await self._while_closed()
                await self._room_on_disk()
                deliveries = await self._pull()
                if deliveries and self._disk.shortage():
                    again = self._consumer.release(deliveries, _FIRST_DELAY_SECONDS)
                    self._run_aside(self._quietly(again))
                elif deliveries or self._hungry:
                    await self._claim(self._worth_asking(deliveries), deliveries)
        finally:
            for task in self._background:
                task.cancel()

    async def _pull(self) -> list[Delivery]:
        if self._hungry:
            return []
        try:
            if self._tidying:
                found = await self._consumer.pull(self._subscriptions, _ALL_THERE_ARE, 0)
                self._tidying = bool(found)
                return found
            return await self._consumer.pull(
                self._subscriptions, self._slots.free, _LONGEST_WAIT_SECONDS
            )
        except (Unavailable, StorageFull, NotFound):
            # Without its subscriptions the session is over, as the claim that follows will tell.
            await asyncio.sleep(_PAUSE_SECONDS)
            self._hungry.update(self._queues)
            return []

    def _worth_asking(self, deliveries: Sequence[Delivery]) -> set[str]:
        permitted = {delivery.subscription.topic for delivery in deliveries}
        last = max((self._queues.index(queue) for queue in self._hungry), default=-1)
        preferred = self._queues[: last + 1]
        return {q for q in self._queues if q in preferred or queue_topic(q) in permitted}

    async def _claim(self, queues: set[str], deliveries: list[Delivery]) -> None:
        answer = await self._conversation.claim(queues)
        queues_left = _without_gathering(answer)
        self._settle(deliveries, {queue_topic(queue.name): queue for queue in queues_left})
        more = {queue.name for queue in answer.queues if queue.answer == "more"}
        was_hungry = bool(self._hungry)
        self._hungry -= {queue.name for queue in answer.queues} - more
        self._hungry |= more
        if more and not answer.jobs:
            # Others were faster, every time.
            await asyncio.sleep(_LOST_RACES_SECONDS)
        if not self._hungry and (was_hungry or not answer.jobs):
            self._tidying = True
        unfit = {queue.name for queue in queues_left if queue.answer == "unfit"}
        if unfit and self._later is None:
            self._later = self._run_aside(self._claim_when_given_back(unfit))

    async def _claim_when_given_back(self, queues: set[str]) -> None:
        """What did not fit may fit when a running job ends; its permit is not needed for that."""
        self._slots.given_back.clear()
        await self._slots.given_back.wait()
        self._later = None
        await self._claim(queues, [])

    def _settle(self, deliveries: list[Delivery], queues: dict[str, QueueAnswer]) -> None:
        by_topic: defaultdict[str, list[Delivery]] = defaultdict(list)
        for delivery in deliveries:
            by_topic[delivery.subscription.topic].append(delivery)
        done: list[Delivery] = []
        for topic, some in by_topic.items():
            count, delay = self._verdict(topic, queues.get(topic), len(some))
            done += some[:count]
            if some[count:]:
                self._run_aside(self._quietly(self._consumer.release(some[count:], delay)))
        if done:
            self._run_aside(self._quietly(self._consumer.acknowledge(done)))

    def _verdict(self, topic: str, queue: QueueAnswer | None, held: int) -> tuple[int, float]:
        """How many permits of a queue are used up, and for how long the others go back."""
        if queue is None:
            return 0, 0.0
        if queue.answer == "empty":
            self._delays.pop(topic, None)
            return held, 0.0
        if queue.answer == "more":
            self._delays.pop(topic, None)
            return queue.taken, 0.0
        if queue.taken:
            self._delays.pop(topic, None)
        delay = self._delays[topic]
        self._delays[topic] = min(2 * delay, _LONGEST_DELAY_SECONDS)
        return queue.taken, delay

    def _run_aside(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _quietly(self, settling: Awaitable[None]) -> None:
        try:
            await settling
        except (Unavailable, StorageFull) as error:
            logger.debug("permits were not settled and come again: %s", error.detail)

    async def _while_closed(self) -> None:
        """What was permitted meanwhile went to others, or is asked for when it is open again."""
        if not self._gate.is_open:
            await self._gate.wait()
            self._hungry = set(self._queues)

    async def _room_on_disk(self) -> None:
        told = False
        while shortage := self._disk.shortage():
            if not told:
                logger.warning("takes no job: %s", shortage)
                told = True
                await self._room.trim(_TO_FREE_BYTES)
            await asyncio.sleep(_PAUSE_SECONDS)
        if told:
            logger.info("takes jobs again: there is room on disk")


def _without_gathering(answer: SyncAnswer) -> list[QueueAnswer]:
    """A group that only has places yet may have to start over, here or elsewhere: it waits on."""
    if not answer.reservations:
        return answer.queues
    return [
        queue.evolve(answer="unfit") if queue.answer == "empty" else queue
        for queue in answer.queues
    ]
