"""What workers, and the processes of attempts in the cloud, say to the control plane over HTTP."""

from typing import Annotated, Literal

from pydantic import Base64Bytes, Field

from xmcloud.core.base import Json, Model, Time
from xmcloud.core.models import Execution, Job, Outcome, Reason, Session, Statistics, Wanted
from xmcloud.core.names import Id, Slug, Text
from xmcloud.core.protocol import Problem
from xmcloud.core.specs import Port, Resources

OUTPUT_LIMIT = 1024 * 1024
"""Bytes of output in one report."""

OUTPUT_BLOCK = 256 * 1024
"""Output is kept in blocks of so many bytes: one that comes whole is one blob."""


RESULTS_LIMIT = 16 * 1024
"""Bytes of the results of a job, as JSON."""


HOLDS_LIMIT = 1000
"""Attempts that a worker can come back with."""


class AttemptRef(Model):
    """An attempt, by its job and fence."""

    job_id: Id
    fence: Annotated[int, Field(ge=1)]


class OpenSession(Model):
    """A worker announces itself."""

    pool: Slug = "local"
    queues: Annotated[tuple[Slug, ...], Field(min_length=1, max_length=20)] = (
        "high",
        "default",
        "low",
    )
    slots: Annotated[int, Field(ge=1, le=1000)] = 1
    resources: Resources = Field({}, examples=[{"cpu": 8, "memory": 3.4e10, "t4": 2}])
    gpus: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    holds: Annotated[tuple[AttemptRef, ...], Field(max_length=HOLDS_LIMIT)] = Field(
        (),
        description="Attempts of an earlier session of this worker that still run here, or whose "
        "end was not taken yet.",
    )
    version: Annotated[str, Field(max_length=100)] = ""
    host: Annotated[str, Field(max_length=255)] = ""
    address: Annotated[str, Field(max_length=255)] = Field(
        "", description="Where jobs of a group reach those that run here; '': the host."
    )


class Held(Model):
    """An attempt that goes on under a new session."""

    job: Job
    output: int = Field(description="Bytes of its output that were stored.")


class Lease(Model):
    """The session that was opened, and its rhythm."""

    session: Session
    lease_seconds: float
    heartbeat_seconds: float = Field(description="Sync at least this often.")
    held: list[Held] = Field([], description="Of `holds`, what goes on; the rest is over.")


class Started(Model):
    """The process of an attempt runs."""

    event: Literal["started"] = "started"
    job_id: Id
    fence: Annotated[int, Field(ge=1)]
    at: Time
    execution: Execution | None = None


class Output(Model):
    """A piece of the combined stdout and stderr, from byte `offset` of the attempt's log on."""

    event: Literal["output"] = "output"
    job_id: Id
    fence: Annotated[int, Field(ge=1)]
    offset: Annotated[int, Field(ge=0, lt=10**15)]
    data: Annotated[Base64Bytes, Field(min_length=1, max_length=OUTPUT_LIMIT)]


class Finished(Model):
    """How an attempt ended."""

    event: Literal["finished"] = "finished"
    job_id: Id
    fence: Annotated[int, Field(ge=1)]
    outcome: Outcome
    reason: Reason
    results: dict[str, Json] = {}


class Measured(Model):
    """What the processes of an attempt used so far; replaces what was told before."""

    event: Literal["measured"] = "measured"
    job_id: Id
    fence: Annotated[int, Field(ge=1)]
    statistics: Statistics


Report = Annotated[Started | Output | Measured | Finished, Field(discriminator="event")]


class Claim(Model):
    """What the worker could run now."""

    slots: Annotated[int, Field(ge=1, le=1000)] = Field(description="Free slots.")
    queues: Annotated[tuple[Slug, ...], Field(min_length=1, max_length=20)] = Field(
        description="To take from, the preferred one first."
    )
    only: Id | None = Field(
        None, description="This job and no other, from wherever it waits, also as a draft."
    )
    resources: Resources = Field({}, description="What is free of the worker's resources.")
    ports: Annotated[tuple[Port, ...], Field(max_length=1000)] = Field(
        (), description="Free ports: each job of a group that is taken gets one of its own."
    )


class Sync(Model):
    """One exchange between a worker and the control plane: news, a heartbeat and a request."""

    reports: Annotated[tuple[Report, ...], Field(max_length=500)] = ()
    claim: Claim | None = None
    statistics: Statistics | None = Field(None, description="Of the machine, all so far.")
    closed: Annotated[str, Field(max_length=300)] = Field(
        "", description="Why the worker takes no jobs now; '' when it does."
    )
    watch_stops: bool = Field(False, description="Ask which running jobs are to be stopped.")
    known: Annotated[tuple[AttemptRef, ...], Field(max_length=1000)] | None = Field(
        None,
        description="After an answer got lost: the attempts the worker knows of. "
        "What it holds besides comes again in `jobs`.",
    )


class ReportResult(Model):
    """What became of one report, in the order of the request; null: it was taken."""

    job_id: Id
    fence: int
    problem: Problem | None = None


class QueueAnswer(Model):
    """What a claim left behind in a queue.

    `empty`: nothing waits for this pool. `more`: more waits that would fit. `unfit`: what waits
    needs more than is free. `paused`: nobody gets anything. A queue that was not looked at, since
    those before it filled the slots, has no answer.
    """

    name: Slug
    answer: Literal["empty", "more", "unfit", "paused"]
    taken: int = 0


class StopOrder(Model):
    """An attempt of this worker that is to be stopped."""

    job_id: Id
    fence: int
    message: str


class Reservation(Model):
    """A slot that is kept for a job of a group which is not whole yet.

    When it is, the worker hears so and finds the job among those it does not know of; if the
    time passes without, the slot is free again.
    """

    job_id: Id
    resources: Resources = {}
    seconds: float = Field(description="From the answer on.")


class SyncAnswer(Model):
    """What became of the reports, until when the lease holds, and what to do."""

    lease_expires_at: Time
    results: list[ReportResult] = []
    jobs: list[Job] = Field([], description="Claimed: state starting, the fence in `fence`.")
    queues: list[QueueAnswer] = []
    reservations: list[Reservation] = []
    stops: list[StopOrder] = []
    wanted: Wanted = Wanted.RUN


class SubscriptionRef(Model):
    """One audience's copy of a topic."""

    topic: Slug
    audience: Slug


class Pull(Model):
    """Takes messages from subscriptions, the earlier ones first; waits for the first to come."""

    subscriptions: Annotated[tuple[SubscriptionRef, ...], Field(min_length=1, max_length=50)]
    limit: Annotated[int, Field(ge=1, le=1000)] = 1
    wait_seconds: Annotated[float, Field(ge=0, le=300)] = 0


class DeliveryRef(Model):
    """One delivery of a message; its receipt settles it."""

    subscription: SubscriptionRef
    audience: Slug | Literal[""] = ""
    body: Annotated[str, Field(max_length=1000)] = ""
    receipt: Annotated[str, Field(max_length=1000)]


class Pulled(Model):
    """What was there, or came first."""

    deliveries: list[DeliveryRef]


class Settle(Model):
    """Acknowledges deliveries, or gives them back for a while."""

    deliveries: Annotated[tuple[DeliveryRef, ...], Field(min_length=1, max_length=1000)]
    delay_seconds: Annotated[float, Field(ge=0, le=600)] | None = Field(
        None, description="Null acknowledges; a number gives back for so long."
    )


class AttemptReports(Model):
    """What the process of an attempt in the cloud tells of itself."""

    reports: Annotated[tuple[Report, ...], Field(max_length=500)] = ()


class AttemptAnswer(Model):
    """What became of the reports, and whether the attempt is to stop."""

    results: list[ReportResult] = []
    stop: StopOrder | None = None
