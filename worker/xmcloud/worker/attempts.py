"""The attempts of a session: takes claimed jobs, frees their slots, forgets them when told."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol

from xmcloud.core.logs import about
from xmcloud.core.models import Job, Outcome, ReasonCode, Wanted
from xmcloud.core.worker_protocol import AttemptRef, Claim, Held, Reservation, StopOrder
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.gate import Gate
from xmcloud.worker.news import Ending
from xmcloud.worker.orders import Order
from xmcloud.worker.output import Tail
from xmcloud.worker.ports import FreePorts
from xmcloud.worker.reasons import ending
from xmcloud.worker.run import Attempt, Stop
from xmcloud.worker.slots import Allotment, Holding, Slots
from xmcloud.worker.sync import Conversation
from xmcloud.worker.tracing import context_of, traced_attempt

_STARTED_WAITS_SECONDS = 0.1  # a job that is over by then is told of in one request

logger = logging.getLogger("xmcloud.worker")


class Watcher(Protocol):
    """Hears of what runs here."""

    def begun(self, attempt: Attempt) -> None: ...

    def ended(self, attempt: Attempt, ending: Ending) -> None: ...


class Attempts:
    """The `Crew` of one conversation after the other: what runs here outlives a session."""

    def __init__(
        self,
        slots: Slots,
        order: Order,
        gate: Gate,
        make: Callable[[Job, Allotment, Callable[[], None]], Attempt],
        folder: Callable[[Job], AttemptFolder],
        leave: Callable[[], None],
        watcher: "Watcher | None" = None,
    ) -> None:
        """`leave` is called when the worker is to end."""
        self._slots = slots
        self._order = order
        self._gate = gate
        self._make = make
        self._folder = folder
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._untold: set[tuple[str, int]] = set()
        self._ports = FreePorts()
        self._reserved: set[str] = set()
        self._leaving = False
        self._leave = leave
        self._watcher = watcher
        self._only: str | None = None

    def connect(self, conversation: Conversation, tail: Tail) -> None:
        """To a new session, before the first job is taken."""
        self._conversation, self._tail = conversation, tail
        for job_id in list(self._reserved):
            self.release(job_id)
        for attempt in self._attempts.values():
            conversation.add(attempt.news)

    def want(self, job: str) -> None:
        """The next claim is for that job and no other."""
        self._only = job

    def refs(self) -> list[AttemptRef]:
        """What is held here."""
        return [AttemptRef(job_id=job_id, fence=fence) for job_id, fence in self._attempts]

    async def keep(self, held: Collection[Held]) -> None:
        """Of what a new session was asked for, this goes on; the rest is over."""
        kept = {(each.job.id, each.job.fence) for each in held}
        given_up = [attempt for key, attempt in self._attempts.items() if key not in kept]
        await self._abandon(given_up, "its lease is over")
        for each in held:
            if (each.job.id, each.job.fence) not in self._attempts:
                self._resume(each)

    def claim(self, queues: Collection[str]) -> Claim | None:
        if not self._slots.free or self._leaving or not self._gate.is_open:
            return None
        if self._only is not None:
            only, self._only = self._only, None
            return Claim(slots=1, queues=tuple(queues), only=only)
        ordered, count = self._order.claim(queues, self._slots.free)
        free = self._slots.free_resources()
        ports = self._ports.some(count)
        return Claim(slots=count, queues=ordered, resources=free, ports=ports)

    def take(self, job: Job) -> None:
        key = job.id, job.fence
        if key in self._attempts:
            return
        self._order.took(job.queue)
        allotment = self._slots.take(key, job.spec.resources, instead_of=_place(job.id))
        attempt = self._make(job, allotment, self._on_start)
        self._reserved.discard(job.id)
        if self._leaving:
            attempt.stop(_leaving(job))
        else:
            logger.info("took %s", attempt.title, extra=about(job.trace))
        self._begin(attempt, attempt.run())

    def _resume(self, held: Held) -> None:
        job = held.job
        had = Holding.recalled(self._folder(job).allotment)
        key = job.id, job.fence
        allotment = self._slots.restore(key, job.spec.resources, had.gpus, had.cpus)
        attempt = self._make(job, allotment, self._on_start)
        logger.info("took up %s again", attempt.title, extra=about(job.trace))
        self._begin(attempt, attempt.resume(held.output))

    def _begin(self, attempt: Attempt, work: Coroutine[Any, Any, Ending]) -> None:
        self._attempts[attempt.key] = attempt
        if self._watcher is not None:
            self._watcher.begun(attempt)
        self._conversation.add(attempt.news)
        context = context_of(attempt.job)
        task = asyncio.create_task(self._see_through(attempt, work), context=context)
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

    def obey(self, wanted: Wanted) -> None:
        if wanted is Wanted.STOP:
            self._leave()
        else:
            self._gate.keep("drained", closed=wanted is Wanted.DRAIN)

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
        """End all processes now. What was not told stays on disk for the next run of the worker."""
        attempts = list(self._attempts.values())
        self._untold |= {each.key for each in attempts if not each.news.closed.is_set()}
        await self._abandon(attempts, why)
        await self.all_told()

    async def _abandon(self, attempts: Collection[Attempt], why: str) -> None:
        for attempt in attempts:
            attempt.news.closed.set()
            attempt.stop(Stop(Outcome.RELEASED, ReasonCode.LOST_WORKER, why, 0))
        await asyncio.gather(*(attempt.kill() for attempt in attempts))

    def _on_start(self) -> None:
        self._tail.restart()
        self._conversation.wake(_STARTED_WAITS_SECONDS)

    async def _see_through(self, attempt: Attempt, work: Coroutine[Any, Any, Ending]) -> None:
        began = time.monotonic()
        try:
            end = await traced_attempt(attempt.job, work)
        except Exception as error:  # one job's surprise must not end the others
            logger.exception("the worker made a mistake with %s", attempt.title)
            message = f"the worker made a mistake: {type(error).__name__}: {error}"
            end = ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, message)
        end = attempt.told(end)
        if self._watcher is not None:
            self._watcher.ended(attempt, end)
        attempt.news.finished(end)
        self._slots.give_back(attempt.key)
        self._conversation.wake()
        first_line = end.reason.message.partition("\n")[0]
        took = time.monotonic() - began
        logger.info("%s %s in %.1f s: %s", attempt.title, end.outcome, took, first_line)
        await attempt.news.closed.wait()
        self._conversation.discard(attempt.news)
        del self._attempts[attempt.key]
        if attempt.key not in self._untold:
            await attempt.clean_up(end.outcome if attempt.news.end_taken else None)


def _place(job_id: str) -> tuple[str, int]:
    """What keeps the slot of a job that has no attempt yet."""
    return job_id, 0


def _leaving(job: Job) -> Stop:
    grace = job.spec.limits.grace_seconds
    return Stop(Outcome.RELEASED, ReasonCode.WORKER_STOPPED, "the worker was stopped", grace)
