"""Models with everything filled in that a test does not care about."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.models import Job, JobState, Outcome, Reason, ReasonCode, Session, StopRequest
from xmcloud.core.protocol import NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Argument, Command, Image, JobSpec, Limits

JOB_ID, EXPERIMENT_ID, SESSION_ID = "j" * 16, "e" * 16, "s" * 16
DIGEST = "0" * 64
EXITED = Reason(code=ReasonCode.EXITED, message="exit code 1", exit_code=1)
LOST = Reason(code=ReasonCode.LOST_WORKER, message="worker w lost")
STOP = StopRequest(by="ann", message="enough", at=START)


def spec(
    *,
    pool: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 0,
    infrastructure_retries: int = 5,
    arguments: tuple[Argument, ...] = (),
) -> JobSpec:
    return JobSpec(
        executable=Command(command=("true",)),
        arguments=arguments,
        pool=pool,
        resources=dict(resources or {}),
        limits=Limits(retries=retries, infrastructure_retries=infrastructure_retries),
    )


def units(*specs: JobSpec, queue: str | None = "default") -> NewUnits:
    """A unit of one job for each."""
    return NewUnits(
        units=tuple(
            NewUnit(jobs=(NewJob(name=f"job-{index}", spec=each, queue=queue),))
            for index, each in enumerate(specs)
        )
    )


def draft(definition: JobSpec | None = None) -> Job:
    return Job(
        id=JOB_ID,
        experiment_id=EXPERIMENT_ID,
        unit=1,
        name="train",
        spec=definition or spec(),
        state=JobState.DRAFT,
        reason=Reason(code=ReasonCode.CREATED, message="created by ann"),
        queue="default",
        position=1,
        created_at=START,
        updated_at=START,
        batch=DIGEST,
    )


def session(id: str = SESSION_ID, *, expires_in: float = 30) -> Session:
    return Session(
        id=id,
        worker="w",
        pool="local",
        queues=("default",),
        slots=1,
        opened_at=START,
        renewed_at=START,
        expires_at=START + timedelta(seconds=expires_in),
    )


BUILD_ID = "b" * 16


def building() -> Job:
    """Enqueued, its image not there yet."""
    return lifecycle.enqueued(draft(image_spec()), "default", 1, "ann", START)


def image_spec(image: str = "") -> JobSpec:
    return JobSpec(executable=Image(image=image, build=BUILD_ID))


def queued(definition: JobSpec | None = None, now: datetime = START) -> Job:
    return lifecycle.enqueued(draft(definition), "default", 1, "ann", now)


def starting(definition: JobSpec | None = None) -> Job:
    return lifecycle.claimed(queued(definition), "w", SESSION_ID, START)


def running(definition: JobSpec | None = None) -> Job:
    return lifecycle.started(starting(definition), 1, START, START)


def ended(outcome: Outcome) -> Job:
    return lifecycle.finished(running(), 1, outcome, EXITED, START, results={"accuracy": 0.5})


def in_state(state: JobState) -> Job:
    """A job that came to be in that state by legal transitions."""
    match state:
        case JobState.DRAFT:
            return draft()
        case JobState.QUEUED:
            return queued()
        case JobState.BUILDING:
            return building()
        case JobState.STARTING:
            return starting()
        case JobState.RUNNING:
            return running()
        case JobState.COMPLETED | JobState.FAILED | JobState.STOPPED:
            return ended(Outcome(state.value))
