"""What clients and workers say to the control plane over HTTP, and what it answers.

`docs/api.md` and the OpenAPI document are made from these.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Base64Bytes, Field, model_validator

from xmcloud.core.base import Json, Model, Time
from xmcloud.core.builds import Build, BuildSpec
from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.models import (
    GROUP_LIMIT,
    Auxiliary,
    Block,
    Experiment,
    Job,
    JobState,
    Outcome,
    QueueState,
    Session,
    Statistics,
)
from xmcloud.core.names import Id, Slug, Text, Title
from xmcloud.core.repositories import Commit, Requirements
from xmcloud.core.requirements import Requirement
from xmcloud.core.specs import JobSpec

BATCH_LIMIT = 400
"""Jobs in one request; with the experiment's own write it stays under a commit's 500."""


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
    project: Slug = DEFAULT_PROJECT
    creator: Title = Field("unknown", description="Believed of the owner; else who asks.")
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
    """What runs together, with a number of its own; several jobs are a group."""

    jobs: Annotated[tuple[NewJob, ...], Field(min_length=1, max_length=GROUP_LIMIT)] = Field(
        description="The jobs of the unit; those of a group start together, from one queue."
    )
    auxiliary: Auxiliary | None = Field(
        None, description="The unit helps the others, and ends after them."
    )

    @model_validator(mode="after")
    def _is_a_group(self) -> Self:
        names = [job.name for job in self.jobs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two jobs of the unit are named {name!r}; rename one")
        first = self.jobs[0]
        for job in self.jobs:
            if (job.queue, job.spec.pool) != (first.queue, first.spec.pool):
                raise ValueError("the jobs of a group wait in one queue, for one pool")
            if job.spec.overflow != first.spec.overflow:
                raise ValueError("the jobs of a group have one overflow")
        return self


class NewUnits(Model):
    """Units to be added to an experiment, in order."""

    units: Annotated[tuple[NewUnit, ...], Field(min_length=1, max_length=BATCH_LIMIT)]

    @model_validator(mode="after")
    def _fit_in_one_commit(self) -> Self:
        jobs = sum(len(unit.jobs) for unit in self.units)
        if jobs > BATCH_LIMIT:
            raise ValueError(f"{jobs} jobs; one request adds at most {BATCH_LIMIT}")
        return self


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
    """What the copy is called, and what differs in it.

    Each change is made in all jobs that it fits, and refused if there are none.
    """

    title: Title | None = None
    project: Slug | None = Field(
        None,
        exclude_if=lambda given: given is None,
        description="Of the copy; null: that of the original.",
    )
    creator: Title = Field("unknown", description="Believed of the owner; else who asks.")
    arguments: dict[str, Json] = Field(
        {}, description="Flags whose value replaces that of the original.", examples=[{"lr": 0.01}]
    )
    commit: Commit | None = Field(
        None, description="Of jobs from git; what was not committed, or not pushed, is left out."
    )
    image: Annotated[Text, Field(min_length=1)] | None = Field(
        None, description="Of jobs that run an image."
    )
    requirements: Requirements | None = Field(
        None, description="Of jobs made of Python code: the whole list, in place of theirs."
    )
    packages: Annotated[tuple[Requirement, ...], Field(max_length=1000)] = Field(
        (), description="Lines that replace those of the same package, or are added."
    )
    queue: Slug | None = Field(None, description="Where the jobs wait; null makes drafts.")


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


class LogSlice(Model):
    """Part of the log of one attempt."""

    fence: int
    offset: int
    data: Base64Bytes
    complete: bool = Field(description="The attempt is over and nothing follows.")


class NewBuild(Model):
    """An image to be made; one of the same spec that is there, or under way, is not made again."""

    spec: BuildSpec
    by: Title = "unknown"


class Builds(Model):
    """A page of builds, the newest first."""

    builds: list[Build]
    cursor: str | None = None


class TargetStatus(Model):
    """A platform that takes jobs from the queues."""

    name: Slug
    limit: int = Field(description="Jobs at a time.")
    running: int
    blocks: dict[str, Block] = Field({}, description="What it refuses now, by accelerator.")


class Sessions(Model):
    """Worker sessions that are open."""

    sessions: list[Session]


class WorkerStatus(Model):
    """A connected worker, what it runs, and what its machine used lately."""

    session: Session
    jobs: list[Job]
    statistics: Statistics | None = Field(None, description="Null before anything was measured.")


class Targets(Model):
    """The platforms of this control plane."""

    targets: list[TargetStatus]


class CauseCode(StrEnum):
    """What keeps a job waiting, for machines."""

    DRAFT = "draft"
    BUILDING = "building"
    QUEUE_PAUSED = "queue_paused"
    OVER_QUOTA = "over_quota"
    GROUP_NOT_WHOLE = "group_not_whole"
    NOT_BEFORE = "not_before"
    NO_TARGET = "no_target"
    TARGET_BLOCKED = "target_blocked"
    TARGET_FULL = "target_full"
    TARGET_PACED = "target_paced"
    NO_WORKER = "no_worker"
    QUEUE_NOT_SERVED = "queue_not_served"
    TOO_LARGE = "too_large"
    GROUP_TOO_LARGE = "group_too_large"
    GROUP_GATHERING = "group_gathering"
    GROUP_RESTING = "group_resting"
    OTHER_GROUP = "other_group"
    WORKERS_BUSY = "workers_busy"
    WORKERS_CLOSED = "workers_closed"
    BEHIND_OTHERS = "behind_others"
    STARTING_SOON = "starting_soon"
    OVERFLOWS = "overflows"


class Cause(Model):
    """Why a job waits."""

    code: CauseCode
    message: str = Field(description="For people; it goes on from: the job waits because ..")
    remedy: str = Field("", description="What to do about it, where there is something.")
    until: Time | None = Field(None, description="When it will be over, where that is known.")


class QueuePlace(Model):
    """How far a job is from the head of its queue."""

    queue: Slug
    place: int = Field(description="1 is the head.")
    waiting: int = Field(description="Jobs in the queue.")


class Pending(Model):
    """Why a job does not run: the most decisive cause first, none once it has started."""

    job_id: Id
    state: JobState
    place: QueuePlace | None = Field(None, description="Of a queued job.")
    causes: list[Cause] = []


class PendingJobs(Model):
    """Jobs that wait for the same causes, the most decisive one first."""

    causes: list[Cause]
    jobs: list[Id]


class PendingExperiment(Model):
    """Why those jobs of an experiment wait that do."""

    pending: list[PendingJobs]
    left_out: int = Field(0, description="Further jobs that wait, of which none is told here.")
