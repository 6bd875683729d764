"""What the control plane knows: experiments, jobs with their attempts, queues, worker sessions.

Models are frozen and checked whole on every change, so that a state and the fields that go with
it cannot disagree.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    model_validator,
)

from xmcloud.core.names import Digest, EnvName, Id, Slug, Text, Title, unicode


def sortable(time: datetime) -> str:
    """Text that sorts as the instants do; `time` is in UTC."""
    return f"{time.isoformat(timespec='microseconds')[:26]}Z"


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 of UTC") from None


Time = Annotated[
    AwareDatetime,
    AfterValidator(_utc),
    PlainSerializer(sortable, when_used="json"),
]
"""An instant in UTC; its text sorts as the instants do."""


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def evolve(self, **changes: Any) -> Self:
        """A checked copy with some fields changed."""
        return type(self).model_validate({**self.__dict__, **changes})


class JobState(StrEnum):
    DRAFT = "draft"
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
    SETUP_FAILED = "setup_failed"
    TIMED_OUT = "timed_out"
    DISK_FULL = "disk_full"
    STOP_REQUESTED = "stop_requested"
    LOST_WORKER = "lost_worker"
    WORKER_STOPPED = "worker_stopped"
    RETRIES_EXHAUSTED = "retries_exhausted"


class Reason(Model):
    """Why something is as it is: a code for machines, a message for people."""

    code: ReasonCode
    message: Annotated[str, Field(max_length=4000)]
    exit_code: int | None = None


NESTING_LIMIT = 100
"""Arrays and objects inside one another: JSON parsers give up at about 200, ours included."""


def _parts(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _readable(value: JsonValue) -> JsonValue:
    level = [value]
    for _ in range(NESTING_LIMIT + 1):
        for item in level:
            if isinstance(item, str):
                unicode(item)
        level = [part for item in level for part in _parts(item)]
        if not level:
            return value
    raise ValueError(f"must not be nested deeper than {NESTING_LIMIT} levels")


Json = Annotated[JsonValue, AfterValidator(_readable)]
"""Any JSON value that can be written and read again; its texts are as those of a process."""


class Argument(Model):
    """One argument: a flag when it has a name, else positional. Values keep their JSON type."""

    name: Text | None = None
    value: Json = None


class Command(Model):
    """A command that runs as it stands on the worker's machine."""

    kind: Literal["command"] = "command"
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    directory: Text | None = None


class PythonSource(Model):
    """A source archive that runs in an environment made from its requirements."""

    kind: Literal["python_source"] = "python_source"
    archive: Digest
    directory: Text = Field(".", description="Working directory inside the archive.")
    entrypoint: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        description="Command inside the environment; the arguments follow it."
    )
    requirements: Text = ""


class Binary(Model):
    """One executable file, carried as a blob."""

    kind: Literal["binary"] = "binary"
    file: Digest
    name: Text


Executable = Annotated[Command | PythonSource | Binary, Field(discriminator="kind")]
Resources = dict[Slug, Annotated[float, Field(gt=0)]]


class Limits(Model):
    """When to give up. Failures of user code and of infrastructure have budgets of their own."""

    runtime_seconds: Annotated[float, Field(gt=0)] | None = None
    grace_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    retries: Annotated[int, Field(ge=0, le=20)] = 0
    infrastructure_retries: Annotated[int, Field(ge=0, le=20)] = 5


class JobSpec(Model):
    """The definition of a job; changes only while the job is a draft."""

    executable: Executable
    arguments: tuple[Argument, ...] = ()
    environment: dict[EnvName, Text] = {}
    resources: Resources = {}
    pool: Slug | Literal[""] = Field("", description="The worker pool that must run it; '': any.")
    limits: Limits = Limits()


class Attempt(Model):
    """One try at running a job, by one worker session. `fence` is its number and its token."""

    fence: Annotated[int, Field(ge=1)]
    worker: Slug
    session: Id
    claimed_at: Time
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
    """Somebody asked a running job to stop."""

    by: Title
    message: Annotated[str, Field(max_length=4000)]
    outcome: Literal[Outcome.STOPPED, Outcome.FAILED, Outcome.COMPLETED] = Outcome.STOPPED
    at: Time


Before = Literal[JobState.DRAFT, JobState.STOPPED, JobState.FAILED]


class Waiting(Model):
    """What only a queued job has."""

    permit_due_at: Time = Field(description="When the sweep publishes its permit again.")
    before: Before = Field(description="What the job returns to when it is taken out.")


class Job(Model):
    """One process or container of a unit, with its definition, place and history."""

    id: Id
    experiment_id: Id
    unit: Annotated[int, Field(ge=1)]
    name: Title
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
    results: dict[str, Json] = {}
    cloned_from: Id | None = None
    created_at: Time
    updated_at: Time
    batch: Digest = Field(description="Digest of the request that made it.")

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
        return self

    @property
    def attempt(self) -> Attempt | None:
        """The attempt under way."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.open else None

    @property
    def full_name(self) -> str:
        return f"{self.experiment_id}_{self.unit}_{self.name}"


class Experiment(Model):
    """What was launched together: a title and the numbered units whose jobs name it."""

    id: Id
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


class Session(Model):
    """One run of a worker. It holds the lease of all attempts it claimed."""

    id: Id
    worker: Slug
    pool: Slug
    queues: tuple[Slug, ...]
    slots: Annotated[int, Field(ge=1, le=1000)]
    resources: Resources = {}
    version: str = ""
    host: str = ""
    opened_at: Time
    renewed_at: Time
    expires_at: Time
    closed_at: Time | None = None
    settled: bool = Field(False, description="Nothing it held is left to be run again.")

    @property
    def open(self) -> bool:
        return self.closed_at is None

    def valid_at(self, now: datetime) -> bool:
        """The lease holds until `expires_at`, and no longer at that very instant."""
        return self.open and now < self.expires_at


DEFAULT_QUEUES: Sequence[tuple[str, int]] = (("high", 100), ("default", 50), ("low", 0))
