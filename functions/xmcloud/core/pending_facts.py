"""What the causes for which a job waits follow from, and the words for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from xmcloud.core.builds import Build
from xmcloud.core.models import DEFAULT_QUEUES, Block, Gathering, Job, JobState, Session, Vain
from xmcloud.core.protocol import QueuePlace
from xmcloud.core.quotas import Excess

BYTES = ("memory", "disk")


@dataclass(frozen=True, slots=True)
class Room:
    """What is free of a worker."""

    slots: int
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is connected; `room` is None where nobody looked."""

    session: Session
    room: Room | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """What its workers do together; `holds_group`: empty, they had room for all of it."""

    name: str
    gathering: Gathering | None = None
    vain: Mapping[str, Vain] | None = None
    holds_group: bool = True


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target now; `submissions` may be made at once."""

    limit: int
    per_minute: float
    running: int
    submissions: float
    blocks: Mapping[str, Block]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the causes of one job follow from.

    `unit` is its group as it stands, the job too, and `workers` all that its pool has;
    `reference` is how commands name the job.
    """

    now: datetime
    unit: Sequence[Job]
    reference: str
    build: Build | None = None
    paused: bool = False
    excess: Excess | None = None
    place: QueuePlace | None = None
    for_target: bool = False
    target: TargetFacts | None = None
    workers: Sequence[Worker] = ()
    pools: Sequence[Pool] = ()


def fits(job: Job, resources: Mapping[str, float]) -> bool:
    """Whether the job finds all it asks for among them."""
    wanted = job.spec.resources.items()
    return all(resources.get(name, 0.0) >= amount for name, amount in wanted)


def serving_workers(job: Job, workers: Sequence[Worker]) -> list[Worker]:
    """Those that take jobs from its queue."""
    return [worker for worker in workers if job.queue in worker.session.queues]


def left_of(facts: Facts) -> list[Job]:
    """What is to start together."""
    return [job for job in facts.unit if job.state is not JobState.COMPLETED]


def place_of(place: QueuePlace) -> str:
    return f"place {place.place} of {place.waiting} in {place.queue}"


def move_ahead(facts: Facts) -> str:
    if facts.place is None or facts.place.place == 1:
        return ""
    return f"Move it ahead: xmcloud queue move {facts.reference} front"


def start_worker(job: Job, queue: str = "") -> str:
    pool = f" --pool {job.pool}" if job.pool not in ("", "local") else ""
    named = {name for name, _ in DEFAULT_QUEUES}
    return f"xmcloud worker start{pool}" + (
        f" --queue {queue}" if queue not in {"", *named} else ""
    )


def some(texts: Sequence[str]) -> str:
    more = len(texts) - 3
    return ", ".join(texts[:3]) + (f" and {more} more" if more > 0 else "")


def amount_of(name: str, amount: float) -> str:
    return f"{amount / 1e9:.4g} GB of {name}" if name in BYTES else f"{amount:.4g} {name}"


def count(number: float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number == 1 else "s")


def span(time: timedelta) -> str:
    """`45 s`, `3 min`, `2 h 10 min`; rounded up, so that nothing is over in 0 s."""
    seconds = max(1, -(-time // timedelta(seconds=1)))
    if seconds < 120:
        return f"{seconds} s"
    minutes = -(-seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
