"""What clients and workers say to the control plane over HTTP, and what it answers.

`docs/api.md` and the OpenAPI document are made from these.
"""

from typing import Annotated, Literal, Self

from pydantic import Base64Bytes, Field

from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.core.models import (
    Experiment,
    Job,
    JobSpec,
    JobState,
    Json,
    Model,
    Outcome,
    QueueState,
    Reason,
    Resources,
    Session,
    Time,
)
from xmcloud.core.names import Id, Slug, Title

BATCH_LIMIT = 400
"""Jobs in one request; with the experiment's own write it stays under a commit's 500."""

OUTPUT_LIMIT = 1024 * 1024
"""Bytes of output in one report."""

RESULTS_LIMIT = 16 * 1024
"""Bytes of the results of a job, as JSON."""


class Problem(Model):
    """Problem details (RFC 9457)."""

    type: str = Field(examples=["urn:xmcloud:problem:not-found"])
    title: str
    status: int
    detail: str
    remedy: str = Field("", description="What to do next.")
    field: str | None = Field(None, description="The field of the request that is at fault.")

    @classmethod
    def of(cls, error: XmcloudError) -> Self:
        return cls(
            type=f"urn:xmcloud:problem:{error.slug}",
            title=error.title,
            status=error.status,
            detail=error.detail,
            remedy=error.remedy,
            field=error.field if isinstance(error, InvalidInput) else None,
        )


class Health(Model):
    """That the control plane answers."""

    status: Literal["ok"] = "ok"
    version: str


class NewExperiment(Model):
    """What an experiment is called, and whose it is."""

    title: Title
    creator: Title = "unknown"
    tags: Annotated[tuple[Title, ...], Field(max_length=50)] = ()
    notes: Annotated[str, Field(max_length=20_000)] = ""


class EditExperiment(Model):
    """Fields that are absent stay as they are."""

    title: Title | None = None
    tags: Annotated[tuple[Title, ...], Field(max_length=50)] | None = None
    notes: Annotated[str, Field(max_length=20_000)] | None = None


class NewJob(Model):
    """A job to be made."""

    name: Title
    spec: JobSpec
    queue: Slug | None = Field("default", description="Where it waits; null makes a draft.")


class NewUnit(Model):
    """What runs together, with a number of its own."""

    jobs: Annotated[tuple[NewJob, ...], Field(min_length=1, max_length=1)] = Field(
        description="The jobs of the unit."
    )


class NewUnits(Model):
    """Units to be added to an experiment, in order."""

    units: Annotated[tuple[NewUnit, ...], Field(min_length=1, max_length=BATCH_LIMIT)]


class Jobs(Model):
    """A page of jobs."""

    jobs: list[Job]
    cursor: str | None = Field(None, description="For the next page; null on the last one.")


class Changes(Model):
    """Jobs that changed; one may come again unchanged, none is left out."""

    jobs: list[Job]
    cursor: str = Field(description="Pass it as `since` to hear what changes from now on.")


class ExperimentStatus(Model):
    """An experiment and how many of its jobs are in each state."""

    experiment: Experiment
    states: dict[JobState, int]


class Experiments(Model):
    """A page of experiments, the newest first."""

    experiments: list[ExperimentStatus]
    cursor: str | None = None


class Skipped(Model):
    """A job that an action on its experiment left as it was, and why."""

    job_id: Id
    why: str


class Acted(Model):
    """What an action on a whole experiment did."""

    jobs: list[Job]
    skipped: list[Skipped] = []


class EditJob(Model):
    """Fields that are absent stay as they are."""

    name: Title | None = None
    spec: JobSpec | None = None


class CloneExperiment(Model):
    """What the copy is called, and the flags that differ in it."""

    title: Title | None = None
    creator: Title = "unknown"
    arguments: dict[str, Json] = Field(
        {}, description="Flags whose value replaces that of the original.", examples=[{"lr": 0.01}]
    )


class Act(Model):
    """Who asks; shown in the reason of what happens."""

    by: Title = "unknown"


class Enqueue(Act):
    """In which queue it waits, and who asks."""

    queue: Slug = "default"


class Stop(Act):
    """Why and as what a job ends."""

    message: Annotated[str, Field(max_length=1000)] = ""
    outcome: Literal[Outcome.STOPPED, Outcome.FAILED, Outcome.COMPLETED] = Outcome.STOPPED


class Move(Act):
    """To a place in its queue, to another queue, or both."""

    to: Literal["front", "back", "up", "down"] = "back"
    queue: Slug | None = Field(None, description="Another queue; null: the one it waits in.")


class NewQueue(Model):
    """A queue to be made; a higher priority is shown first."""

    name: Slug
    priority: Annotated[int, Field(ge=0, le=1000)] = 50


class QueueStatus(Model):
    """A queue, how many jobs wait in it and since when the oldest does."""

    queue: QueueState
    waiting: int
    oldest: Time | None = None


class Queues(Model):
    """All queues, the highest priority first."""

    queues: list[QueueStatus]


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
    version: Annotated[str, Field(max_length=100)] = ""
    host: Annotated[str, Field(max_length=255)] = ""


class Lease(Model):
    """The session that was opened, and its rhythm."""

    session: Session
    lease_seconds: float
    heartbeat_seconds: float = Field(description="Sync at least this often.")


class Started(Model):
    """The process of an attempt runs."""

    event: Literal["started"] = "started"
    job_id: Id
    fence: Annotated[int, Field(ge=1)]
    at: Time


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


Report = Annotated[Started | Output | Finished, Field(discriminator="event")]


class Claim(Model):
    """What the worker could run now."""

    slots: Annotated[int, Field(ge=1, le=1000)] = Field(description="Free slots.")
    queues: Annotated[tuple[Slug, ...], Field(min_length=1, max_length=20)] = Field(
        description="To take from, the preferred one first."
    )
    resources: Resources = Field({}, description="What is free of the worker's resources.")


class AttemptRef(Model):
    """An attempt, by its job and fence."""

    job_id: Id
    fence: Annotated[int, Field(ge=1)]


class Sync(Model):
    """One exchange between a worker and the control plane: news, a heartbeat and a request."""

    reports: Annotated[tuple[Report, ...], Field(max_length=500)] = ()
    claim: Claim | None = None
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


class SyncAnswer(Model):
    """What became of the reports, until when the lease holds, and what to do."""

    lease_expires_at: Time
    results: list[ReportResult] = []
    jobs: list[Job] = Field([], description="Claimed: state starting, the fence in `fence`.")
    queues: list[QueueAnswer] = []
    stops: list[StopOrder] = []


class Sessions(Model):
    """Worker sessions that are open."""

    sessions: list[Session]


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


class LogSlice(Model):
    """Part of the log of one attempt."""

    fence: int
    offset: int
    data: Base64Bytes
    complete: bool = Field(description="The attempt is over and nothing follows.")
