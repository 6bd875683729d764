"""The attempts of a session: takes claimed jobs, frees their slots, forgets them when told."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from xmcloud.core.models import Job, Outcome, ReasonCode
from xmcloud.core.worker_protocol import Claim, Reservation, StopOrder
from xmcloud.worker.output import Tail
from xmcloud.worker.ports import FreePorts
from xmcloud.worker.reasons import ending
from xmcloud.worker.run import Attempt, Stop
from xmcloud.worker.slots import Slots
from xmcloud.worker.sync import Conversation

_STARTED_WAITS_SECONDS = 0.1  # a job that is over by then is told of in one request

logger = logging.getLogger("xmcloud.worker")


class Attempts:
    """The `Crew` of one conversation."""

    def __init__(
        self,
        slots: Slots,
        queues: tuple[str, ...],
        make: Callable[[Job, Callable[[], None]], Attempt],
    ) -> None:
        self._slots = slots
        self._queues = queues
        self._make = make
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ports = FreePorts()
        self._reserved: set[str] = set()
        self._leaving = False

    def connect(self, conversation: Conversation, tail: Tail) -> None:
        """Before the first job is taken."""
        self._conversation, self._tail = conversation, tail

    def claim(self, queues: Collection[str]) -> Claim | None:
        count = self._slots.free
        if not count or self._leaving:
            return None
        ordered = tuple(queue for queue in self._queues if queue in queues)
        free = self._slots.free_resources()
        ports = self._ports.some(count)
        return Claim(slots=count, queues=ordered, resources=free, ports=ports)

    def take(self, job: Job) -> None:
        attempt = self._make(job, self._on_start)
        if attempt.key in self._attempts:
            return
        self._attempts[attempt.key] = attempt
        self._slots.take(attempt.key, job.spec.resources, instead_of=_place(job.id))
        self._reserved.discard(job.id)
        self._conversation.add(attempt.news)
        if self._leaving:
            attempt.stop(_leaving(job))
        else:
            logger.info("took %s", attempt.title)
        task = asyncio.create_task(self._see_through(attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reserve(self, reservation: Reservation) -> None:
        if not self._leaving:
            self._reserved.add(reservation.job_id)
            self._slots.take(_place(reservation.job_id), reservation.resources)

    def release(self, job_id: str) -> None:
        if job_id in self._reserved:
            self._reserved.discard(job_id)
            self._slots.give_back(_place(job_id))

    def stop(self, order: StopOrder) -> None:
        attempt = self._attempts.get((order.job_id, order.fence))
        if attempt is None:
            return
        grace = attempt.job.spec.limits.grace_seconds
        message = order.message or "stop requested"
        attempt.stop(Stop(Outcome.STOPPED, ReasonCode.STOP_REQUESTED, message, grace))

    def grown(self) -> bool:
        """Any output that was not told yet."""
        return any(attempt.news.grown for attempt in self._attempts.values())

    async def leave(self) -> None:
        """Stop everything gracefully, so that it runs again elsewhere; until nothing runs."""
        self._leaving = True
        for job_id in list(self._reserved):
            self.release(job_id)
        for attempt in self._attempts.values():
            attempt.stop(_leaving(attempt.job))
        while self._slots.busy.is_set():
            self._slots.given_back.clear()
            await self._slots.given_back.wait()

    async def all_told(self) -> None:
        """Until the control plane took the end of every attempt."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def kill(self) -> None:
        """End all processes now."""
        await asyncio.gather(*(attempt.kill() for attempt in list(self._attempts.values())))

    async def abandon(self, why: str) -> None:
        """End all processes now and tell nobody: the session is over."""
        for attempt in self._attempts.values():
            attempt.news.closed.set()
            attempt.stop(Stop(Outcome.RELEASED, ReasonCode.LOST_WORKER, why, 0))
        await self.kill()
        await self.all_told()

    def _on_start(self) -> None:
        self._tail.restart()
        self._conversation.wake(_STARTED_WAITS_SECONDS)

    async def _see_through(self, attempt: Attempt) -> None:
        began = time.monotonic()
        try:
            end = await attempt.run()
        except Exception as error:  # one job's surprise must not end the others
            logger.exception("the worker made a mistake with %s", attempt.title)
            message = f"the worker made a mistake: {type(error).__name__}: {error}"
            end = ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, message)
        attempt.news.finished(end)
        self._slots.give_back(attempt.key)
        self._conversation.wake()
        first_line = end.reason.message.partition("\n")[0]
        took = time.monotonic() - began
        logger.info("%s %s in %.1f s: %s", attempt.title, end.outcome, took, first_line)
        await attempt.news.closed.wait()
        self._conversation.discard(attempt.news)
        del self._attempts[attempt.key]
        await attempt.clean_up()


def _place(job_id: str) -> tuple[str, int]:
    """What keeps the slot of a job that has no attempt yet."""
    return job_id, 0


def _leaving(job: Job) -> Stop:
    grace = job.spec.limits.grace_seconds
    return Stop(Outcome.RELEASED, ReasonCode.WORKER_STOPPED, "the worker was stopped", grace)
