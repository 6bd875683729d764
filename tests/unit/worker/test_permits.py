"""Which queues the worker asks, when it waits for a permit, and what becomes of permits."""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.support.builders import JOB_ID, starting
from tests.support.clock import START
from xmcloud.core.ports import Delivery, Message, Subscription
from xmcloud.core.worker_protocol import QueueAnswer, Reservation, SyncAnswer
from xmcloud.worker.disk import Disk
from xmcloud.worker.eviction import Room
from xmcloud.worker.gate import Gate
from xmcloud.worker.permits import Permits
from xmcloud.worker.slots import Slots

pytestmark = pytest.mark.anyio
Answer = Literal["empty", "more", "unfit", "paused"]


def permit(queue: str, receipt: str = "1") -> Delivery:
    return Delivery(Subscription(f"queue-{queue}", "pool"), Message("", "job"), receipt)


class Broker:
    """Hands out what a test puts in; remembers how permits were settled."""

    def __init__(self) -> None:
        self.there: asyncio.Queue[list[Delivery]] = asyncio.Queue()
        self.pulls: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
        self.settled: asyncio.Queue[tuple[list[Delivery], float | None]] = asyncio.Queue()

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        self.pulls.put_nowait((limit, wait))
        return await self.there.get()

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.settled.put_nowait((list(deliveries), None))

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        self.settled.put_nowait((list(deliveries), delay))

    async def close(self) -> None:
        raise AssertionError


class Plane:
    """Answers claims as a test says; remembers which queues were asked."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[set[str]] = asyncio.Queue()
        self.answers: asyncio.Queue[SyncAnswer] = asyncio.Queue()

    async def claim(self, queues: Collection[str]) -> SyncAnswer:
        self.asked.put_nowait(set(queues))
        return await self.answers.get()

    def answer(self, jobs: int = 0, places: int = 0, **queues: Answer) -> None:
        found = [QueueAnswer(name=name, answer=answer) for name, answer in queues.items()]
        self.answers.put_nowait(
            SyncAnswer(
                lease_expires_at=START,
                jobs=[starting()] * jobs,
                reservations=[Reservation(job_id=JOB_ID, seconds=20)] * places,
                queues=found,
            )
        )


class Rig:
    def __init__(self, folder: Path) -> None:
        self.broker, self.plane, self.slots = Broker(), Plane(), Slots(2, {})
        self.gate = Gate()
        queues = ("high", "default", "low")
        self.permits = Permits(
            self.broker,
            self.plane,
            self.slots,
            queues,
            "pool",
            Disk([folder], 0),
            Room(folder),
            self.gate,
        )

    async def __aenter__(self) -> "Rig":
        self._task = asyncio.create_task(self.permits.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def waiting(self) -> None:
        """Past the first claims, which find nothing, and the tidying up."""
        assert await self.plane.asked.get() == {"high", "default", "low"}
        self.plane.answer(high="empty", default="empty", low="empty")
        assert (await self.broker.pulls.get())[1] == 0
        self.broker.there.put_nowait([])
        assert await self.broker.pulls.get() == (2, 300)


async def test_it_asks_once_without_a_permit_then_waits_for_one(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        assert rig.plane.asked.empty()


async def test_closed_it_asks_for_nothing_and_once_open_for_all(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        rig.gate.keep("drained", closed=True)
        rig.broker.there.put_nowait([permit("low")])
        assert await rig.plane.asked.get() == {"low"}
        rig.plane.answer()
        assert await rig.broker.settled.get() == ([permit("low")], 0)
        rig.gate.keep("drained", closed=False)
        assert await rig.plane.asked.get() == {"high", "default", "low"}


async def test_a_permit_asks_its_queue_alone_and_is_acknowledged_when_taken(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        rig.broker.there.put_nowait([permit("low")])
        assert await rig.plane.asked.get() == {"low"}
        rig.plane.answer(low="empty", jobs=1)
        assert await rig.broker.settled.get() == ([permit("low")], None)
        assert await rig.broker.pulls.get() == (2, 300)


async def test_after_more_it_asks_again_with_what_it_prefers(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        rig.broker.there.put_nowait([permit("default")])
        await rig.plane.asked.get()
        rig.plane.answer(default="more", jobs=1)
        assert await rig.plane.asked.get() == {"high", "default"}
        rig.plane.answer(high="empty", default="empty", jobs=1)
        assert (await rig.broker.pulls.get())[1] == 0


async def test_a_queue_that_was_not_looked_at_is_asked_again(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.plane.asked.get()
        rig.plane.answer(high="empty", jobs=1)
        assert await rig.plane.asked.get() == {"high", "default", "low"}


@pytest.mark.parametrize("answer", ["unfit", "paused"])
async def test_what_cannot_start_goes_back_for_longer_each_time(
    tmp_path: Path, answer: Answer
) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        delays = []
        for _ in range(8):
            rig.broker.there.put_nowait([permit("default")])
            await rig.plane.asked.get()
            rig.plane.answer(default=answer)
            delays.append((await rig.broker.settled.get())[1])
        assert delays == [10, 20, 40, 80, 160, 320, 600, 600]


async def test_a_permit_of_a_group_that_gathers_is_not_used_up(tmp_path: Path) -> None:
    async with Rig(tmp_path) as rig:
        await rig.waiting()
        rig.broker.there.put_nowait([permit("default")])
        await rig.plane.asked.get()
        rig.slots.take(("j" * 16, 0), {})
        rig.plane.answer(default="empty", places=1)
        assert await rig.broker.settled.get() == ([permit("default")], 10)
        rig.slots.give_back(("j" * 16, 0))
        assert await rig.plane.asked.get() == {"default"}
