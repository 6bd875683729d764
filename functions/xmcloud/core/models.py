"""What the control plane knows: experiments, jobs with their attempts, queues, worker sessions.

Models are frozen and checked whole on every change, so that a state and the fields that go with
it cannot disagree.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from xmcloud.core.base import Json, Model, Time
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.names import Digest, Id, Slug, Text, Title, TraceParent
from xmcloud.core.specs import JobSpec, Resources, pending_build

GROUP_LIMIT = 100
"""Jobs of one unit."""


class JobState(StrEnum):
    DRAFT = "draft"
    BUILDING = "building"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def active(self) -> bool:
        """An attempt is under way."""
        return self in (JobState.STARTING, JobState.RUNNING)

    @property
    def terminal(self) -> bool:
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.STOPPED)


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    RELEASED = "released"


class ReasonCode(StrEnum):
    """Why something is as it is, for machines; the message beside it is for people."""

    CREATED = "created"
    CLONED = "cloned"
    ENQUEUED = "enqueued"
    DEQUEUED = "dequeued"
    RESET = "reset"
    CLAIMED = "claimed"
    STARTED = "started"
    EXITED = "exited"
    SIGNALED = "signaled"
    OUT_OF_MEMORY = "out_of_memory"
    SETUP_FAILED = "setup_failed"
    TIMED_OUT = "timed_out"
    DISK_FULL = "disk_full"
    STOP_REQUESTED = "stop_requested"
    LOST_WORKER = "lost_worker"
    RESUMED = "resumed"
    WORKER_STOPPED = "worker_stopped"
    RETRIES_EXHAUSTED = "retries_exhausted"
    BUILDING = "building"
    BUILT = "built"
    BUILD_FAILED = "build_failed"
    SUBMITTED = "submitted"
    REFUSED = "refused"
    QUOTA = "quota"
    PREEMPTED = "preempted"
    PLATFORM_FAILED = "platform_failed"
    OVERFLOWED = "overflowed"
    GROUP_STOPPED = "group_stopped"
    GROUP_RESTARTED = "group_restarted"
    EXPERIMENT_ENDED = "experiment_ended"


class Reason(Model):
    """Why something is as it is: a code for machines, a message for people."""

    code: ReasonCode
    message: Annotated[str, Field(max_length=4000)]
    exit_code: int | None = None


class Remote(Model):
    """What a platform calls the job that it runs for an attempt; a group's jobs share it."""

    name: Text
    url: Text = Field("", description="Where people see it.")
    log_url: Text = Field("", description="Where people see what it printed.")


class Peer(Model):
    """Where a job of a group can be reached."""

    host: Text
    port: Annotated[int, Field(ge=0, le=65535)] = Field(description="0 where none is reserved.")


ARGV_LIMIT = 32 * 1024
"""Characters of a recorded command line."""


class Execution(Model):
    """What a worker really ran for an attempt, so that two can be compared."""

    argv: tuple[Text, ...] = Field(description="One over 32 KiB is its digest alone.")
    directory: Text = ""
    code: Text = Field("", description="git:COMMIT+DIFF, sha256:ARCHIVE, or an image's digest.")
    python: Text = ""
    packages: Digest | None = Field(None, description="Blob: one NAME==VERSION a line.")
    host: Text = ""
    gpus: tuple[Text, ...] = Field((), description="What it was given, by number and name.")

    @classmethod
    def command(cls, argv: Sequence[str]) -> tuple[str, ...]:
        """The command line as it is recorded."""
        if sum(map(len, argv)) <= ARGV_LIMIT:
            return tuple(argv)
        return (f"sha256:{sha256(chr(0).join(argv).encode()).hexdigest()}",)


class Attempt(Model):
    """One try at running a job, by a worker session or a target.

    `fence` is its number and its token.
    """

    fence: Annotated[int, Field(ge=1)]
    worker: Slug = Field(description="The worker, or the target.")
    session: Id
    claimed_at: Time
    peers: dict[Title, Peer] = Field({}, description="The jobs of the group by name, this too.")
    remote: Remote | None = None
    execution: Execution | None = Field(None, description="Of the newest attempt, once it runs.")
    started_at: Time | None = None
    finished_at: Time | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _ended_whole(self) -> Self:
        ended = [self.finished_at, self.outcome, self.reason]
        if any(part is None for part in ended) and any(part is not None for part in ended):
            raise ValueError("finished_at, outcome and reason go together")
        return self

    @property
    def open(self) -> bool:
        return self.outcome is None


class StopRequest(Model):
    """A running job is asked to stop: by people, or since another job of its group ended.

    Released, it waits again with its group.
    """

    by: Title
    message: Annotated[str, Field(max_length=4000)]
    outcome: Literal[Outcome.STOPPED, Outcome.FAILED, Outcome.COMPLETED, Outcome.RELEASED] = (
        Outcome.STOPPED
    )
    at: Time


Before = Literal[JobState.DRAFT, JobState.STOPPED, JobState.FAILED]


class Waiting(Model):
    """What only a queued job has."""

    permit_due_at: Time = Field(description="When the sweep publishes its permit again.")
    before: Before = Field(description="What the job returns to when it is taken out.")
    not_before: Time | None = Field(None, description="Not claimed before that instant.")
    overflow_at: Time | None = Field(None, description="When it goes to its overflow target.")


class Member(Model):
    """A job of a group."""

    id: Id
    name: Title


class Importance(StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Auxiliary(Model):
    """The unit helps the others and ends after them."""

    importance: Importance = Importance.NORMAL
    termination_delay_seconds: Annotated[float, Field(ge=0, le=7 * 24 * 3600)] = 0
    ends_at: Time | None = Field(None, description="Once the other units have ended.")


class Job(Model):
    """One process or container of a unit, with its definition, place and history."""

    id: Id
    experiment_id: Id
    project: Slug = DEFAULT_PROJECT
    creator: Title = Field("unknown", description="Whose experiment it is of.")
    unit: Annotated[int, Field(ge=1)]
    name: Title
    group: Annotated[tuple[Member, ...], Field(max_length=GROUP_LIMIT)] = Field(
        (), description="All jobs of the unit in order, this too, when it has several."
    )
    auxiliary: Auxiliary | None = None
    spec: JobSpec
    state: JobState
    fence: Annotated[int, Field(ge=0)] = 0
    reason: Reason = Field(description="Why it is in this state.")
    queue: Slug = Field(description="Where it waits, or waited last.")
    position: int = Field(description="Its place in the queue: lower is served earlier.")
    waiting: Waiting | None = None
    attempts: tuple[Attempt, ...] = ()
    failures: Annotated[int, Field(ge=0)] = 0
    losses: Annotated[int, Field(ge=0)] = 0
    stop: StopRequest | None = None
    overflowed: bool = Field(False, description="It waits for, or runs on, its overflow target.")
    results: dict[str, Json] = {}
    cloned_from: Id | None = None
    created_at: Time
    updated_at: Time
    batch: Digest = Field(description="Digest of the request that made it.")
    trace: TraceParent = Field("", description="Of the request that put it into its queue.")

    @model_validator(mode="after")
    def _state_and_fields_agree(self) -> Self:
        if (self.waiting is not None) != (self.state is JobState.QUEUED):
            raise ValueError("a job waits exactly while it is queued")
        if (self.attempt is not None) != self.state.active:
            raise ValueError("a job has an open attempt exactly while it is starting or running")
        if self.attempt is not None:
            started = self.attempt.started_at is not None
            if started != (self.state is JobState.RUNNING) or self.attempt.fence != self.fence:
                raise ValueError("the open attempt is the newest and tells starting from running")
        if self.stop is not None and not self.state.active:
            raise ValueError("only a running job is asked to stop")
        if self.group and all(member.id != self.id for member in self.group):
            raise ValueError("a job of a group is one of its members")
        if self.overflowed and self.spec.overflow is None:
            raise ValueError("only a job with an overflow target goes there")
        return self

    @property
    def attempt(self) -> Attempt | None:
        """The attempt under way."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.open else None

    @property
    def pool(self) -> str:
        """The worker pool or target that may claim it now; '' for any pool."""
        overflow = self.spec.overflow
        return overflow.target if self.overflowed and overflow else self.spec.pool

    @property
    def members(self) -> tuple[str, ...]:
        """The ids of the jobs that start with it, this too."""
        return tuple(member.id for member in self.group) or (self.id,)

    @property
    def pending_build(self) -> str | None:
        """The build whose image it has not got yet."""
        return pending_build(self.spec)

    @property
    def full_name(self) -> str:
        return f"{self.experiment_id}_{self.unit}_{self.name}"


class Statistics(Model):
    """What was measured at equal intervals, the oldest first. Units are in the names.

    When there is too much, two neighbours become their mean, of memory the larger, and the
    interval twice as long.
    """

    start: Time
    step_seconds: Annotated[float, Field(gt=0)]
    series: Annotated[
        dict[Slug, Annotated[tuple[float | None, ...], Field(max_length=240)]],
        Field(max_length=100),
    ]


class Experiment(Model):
    """What was launched together: a title and the numbered units whose jobs name it."""

    id: Id
    project: Slug = DEFAULT_PROJECT
    title: Title
    creator: Title
    tags: tuple[Title, ...] = ()
    notes: Annotated[str, Field(max_length=20_000)] = ""
    units: Annotated[int, Field(ge=0)] = 0
    cloned_from: Id | None = None
    created_at: Time
    request: Digest = Field(description="Digest of the request that made it.")


class QueueState(Model):
    """A queue as people see it; the jobs in it name it."""

    name: Slug
    priority: int = Field(description="A higher number is served first.")
    paused: bool = False
    created_at: Time


class Wanted(StrEnum):
    """What people want of a worker: DRAIN finishes what runs and takes no more."""

    RUN = "run"
    DRAIN = "drain"
    STOP = "stop"


class Session(Model):
    """One run of a worker. It holds the lease of all attempts it claimed."""

    id: Id
    worker: Slug
    principal: Title = Field("owner", description="Who opened it, and so is its worker.")
    pool: Slug
    queues: tuple[Slug, ...]
    slots: Annotated[int, Field(ge=1, le=1000)]
    resources: Resources = {}
    gpus: tuple[Text, ...] = Field((), description="By number and name, as its driver has them.")
    wanted: Wanted = Wanted.RUN
    closed: Annotated[str, Field(max_length=300)] = Field(
        "", description="Why it takes no jobs now; '' when it does."
    )
    version: str = ""
    host: str = ""
    address: str = Field("", description="Where jobs of a group reach those that run here.")
    opened_at: Time
    renewed_at: Time
    expires_at: Time
    closed_at: Time | None = None
    settled: bool = Field(False, description="Nothing it held is left to be run again.")

    @property
    def open(self) -> bool:
        return self.closed_at is None

    @property
    def takes_nothing(self) -> str:
        """Why it takes no jobs now; '' when it does."""
        return "it was drained" if self.wanted is not Wanted.RUN else self.closed

    def understands(self, spec: JobSpec) -> bool:
        """Workers of 0.1 would start a job without its secrets."""
        return not (spec.secrets and self.version.startswith("0.1."))

    def valid_at(self, now: datetime) -> bool:
        """The lease holds until `expires_at`, and no longer at that very instant."""
        return self.open and now < self.expires_at


DEFAULT_QUEUES: Sequence[tuple[str, int]] = (("high", 100), ("default", 50), ("low", 0))


class Gathering(Model):
    """A group that takes slots of a pool's workers, one claim after the other, until it has all.

    Nothing of it runs before; at the deadline it gives the slots back.
    """

    leader: Id
    deadline: Time
    places: dict[Id, "Place"] = {}


class Place(Model):
    """A slot of a worker that is kept for a job."""

    session: Id
    port: Annotated[int, Field(ge=0, le=65535)]


class PoolState(Model):
    """What the workers of one pool do together: at most one group gathers at a time."""

    name: Slug
    gathering: Gathering | None = None
    vain: dict[Id, "Vain"] = Field({}, description="By the group's first job.")


class Vain(Model):
    """Gatherings of a group that came to nothing: it lets others go first for a while."""

    count: Annotated[int, Field(ge=1)]
    rests_until: Time


class Block(Model):
    """Why a target takes no jobs of some kind for a while."""

    until: Time
    message: Annotated[str, Field(max_length=1000)]


class TargetState(Model):
    """What the dispatches to one platform share: its pace, and what it refuses for now."""

    name: Slug
    submissions: float = Field(description="How many may be made at once, at `refilled_at`.")
    refilled_at: Time
    blocks: dict[str, Block] = Field({}, description="By accelerator; '' is none.")
