"""A worker's half of the permit protocol, without processes."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xmcloud.core.control import sync
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job
from xmcloud.core.ports import Delivery
from xmcloud.core.topics import control_subscription, permit_subscription, queue_topic
from xmcloud.core.worker_protocol import (
    AttemptRef,
    Claim,
    OpenSession,
    QueueAnswer,
    Report,
    Sync,
    SyncAnswer,
)


@dataclass
class Worker:
    """What a worker process remembers; a crash forgets all below `resources`."""

    name: str
    pool: str
    queues: tuple[str, ...]
    slots: int
    resources: dict[str, float]
    session: str | None = None
    running: dict[str, Job] = field(default_factory=dict)
    hungry: bool = True
    short: bool = False
    in_doubt: bool = False

    def crash(self) -> None:
        self.session, self.running = None, {}
        self.hungry, self.short, self.in_doubt = True, False, False

    def has_room_for(self, jobs: Sequence[Job]) -> bool:
        """Besides nothing else."""
        used: Counter[str] = Counter()
        for job in jobs:
            used.update(job.spec.resources)
        fits = all(n <= self.resources.get(name, 0) for name, n in used.items())
        return fits and len(jobs) <= self.slots

    def gave_back(self, job: str) -> None:
        """What did not fit before may fit now."""
        if self.running.pop(job, None) is not None and self.short:
            self.hungry, self.short = True, False

    @property
    def request(self) -> OpenSession:
        return OpenSession(
            pool=self.pool, queues=self.queues, slots=self.slots, resources=self.resources
        )

    def claim(self) -> Claim | None:
        """For everything that is free; None when nothing is."""
        free = dict(self.resources)
        for job in self.running.values():
            for name, amount in job.spec.resources.items():
                free[name] = free.get(name, 0.0) - amount
                assert free[name] >= 0, f"{self.name} was given more than it has of {name}"
        slots = self.slots - len(self.running)
        left = {name: amount for name, amount in free.items() if amount > 0}
        return Claim(slots=slots, queues=self.queues, resources=left) if slots > 0 else None

    def sync(self, *reports: Report, claim: Claim | None = None) -> Sync:
        known = tuple(AttemptRef(job_id=j.id, fence=j.fence) for j in self.running.values())
        return Sync(
            reports=reports, claim=claim, known=known if self.in_doubt else None, watch_stops=True
        )

    async def pull(self, plane: ControlPlane) -> list[Delivery]:
        """Permits for its free slots; control messages are only taken note of."""
        assert self.session is not None
        with suppress(NotFound):  # the session may be over, as the next claim tells
            control = await plane.queue.pull([control_subscription(self.session)], 100, 0)
            if control:
                await plane.queue.acknowledge(control)
        permits = [permit_subscription(queue, self.pool) for queue in self.queues]
        return await plane.queue.pull(permits, self.slots - len(self.running), 0)

    def learn(self, answer: SyncAnswer) -> None:
        self.running |= {job.id: job for job in answer.jobs}
        self.in_doubt = False
        if answer.queues:
            answers = {queue.answer for queue in answer.queues}
            unseen = len(answer.queues) < len(self.queues)
            self.hungry, self.short = "more" in answers or unseen, "unfit" in answers


async def settle(
    plane: ControlPlane, deliveries: list[Delivery], answers: list[QueueAnswer], backoff: float
) -> None:
    """Permits that gave a job are used up, all of a queue that is empty too; others go back."""
    by_topic: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        by_topic[delivery.subscription.topic].append(delivery)
    for queue in answers:
        held = by_topic.pop(queue_topic(queue.name), [])
        used = len(held) if queue.answer == "empty" else queue.taken
        if held[:used]:
            await plane.queue.acknowledge(held[:used])
        if held[used:]:
            delay = 0.0 if queue.answer == "more" else backoff
            await plane.queue.release(held[used:], delay)
    unseen = [delivery for held in by_topic.values() for delivery in held]
    await plane.queue.release(unseen, 0)


async def exchange(plane: ControlPlane, worker: Worker, request: Sync) -> SyncAnswer:
    assert worker.session is not None
    return await sync.sync(plane, worker.session, request)
