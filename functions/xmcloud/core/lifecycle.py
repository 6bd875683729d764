"""The life of a job: every change of state is a named function, and carries a reason.

    draft -> queued -> starting -> running -> completed | failed | stopped

Functions are pure: a job and the facts in, the next job out, or a refusal. An attempt that is
lost or released sends its job back to the queue while retries last.
"""

from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from xmcloud.core.errors import IllegalTransition, StaleFence
from xmcloud.core.models import (
    Attempt,
    Job,
    JobSpec,
    JobState,
    Outcome,
    Reason,
    ReasonCode,
    Session,
    StopRequest,
    Waiting,
)

UNCONFIRMED = timedelta(seconds=10)
"""How long after a write the sweep waits for the word that its permit went out."""

CONFIRMED = timedelta(hours=1)
"""How long a confirmed permit is trusted before it is published again."""

ATTEMPTS_KEPT = 50

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _require(job: Job, action: str, *legal: JobState) -> None:
    if job.state not in legal:
        raise IllegalTransition(action, job.full_name, job.state, legal)


def _attempt(job: Job, fence: int) -> Attempt:
    """The open attempt that `fence` names. Raises `StaleFence`."""
    attempt = job.attempt
    if attempt is None or attempt.fence != fence:
        raise StaleFence(job.id, fence, f"the job is {job.state} at fence {job.fence}")
    return attempt


PLACE = 1000
"""Between the positions of two instants: room for the jobs of one batch."""


def position_at(time: datetime) -> int:
    """The place in a queue of what arrives at `time`: microseconds since 1970, `PLACE` apart."""
    return (time - _EPOCH) // timedelta(microseconds=1) * PLACE


def enqueued(job: Job, queue: str, position: int, by: str, now: datetime) -> Job:
    """A draft, stopped or failed job waits at `position` of `queue`, its results cleared."""
    _require(job, "enqueue", JobState.DRAFT, JobState.STOPPED, JobState.FAILED)
    before = {"permit_due_at": now + UNCONFIRMED, "before": job.state}
    return job.evolve(
        state=JobState.QUEUED,
        reason=Reason(code=ReasonCode.ENQUEUED, message=f"enqueued by {by}"),
        waiting=Waiting.model_validate(before),
        queue=queue,
        position=position,
        failures=0,
        losses=0,
        results={},
        updated_at=now,
    )


def dequeued(job: Job, by: str, now: datetime) -> Job:
    """A queued job returns to the state it was enqueued from."""
    _require(job, "dequeue", JobState.QUEUED)
    assert job.waiting is not None
    return job.evolve(
        state=job.waiting.before,
        reason=Reason(code=ReasonCode.DEQUEUED, message=f"taken out of {job.queue} by {by}"),
        waiting=None,
        updated_at=now,
    )


def moved(job: Job, queue: str, position: int, now: datetime) -> Job:
    """A queued job waits elsewhere; in another queue it needs a permit of that queue."""
    _require(job, "move", JobState.QUEUED)
    assert job.waiting is not None
    due = job.waiting.permit_due_at if queue == job.queue else now + UNCONFIRMED
    return job.evolve(
        queue=queue,
        position=position,
        waiting=job.waiting.evolve(permit_due_at=due),
        updated_at=now,
    )


def permit_confirmed(job: Job, now: datetime) -> Job:
    """The broker holds a permit for this queued job."""
    assert job.waiting is not None
    return job.evolve(waiting=job.waiting.evolve(permit_due_at=now + CONFIRMED))


def edited(job: Job, now: datetime, *, spec: JobSpec | None, name: str | None) -> Job:
    """A draft gets another definition or name."""
    _require(job, "edit", JobState.DRAFT)
    return job.evolve(spec=spec or job.spec, name=name or job.name, updated_at=now)


def reset(job: Job, by: str, now: datetime) -> Job:
    """A finished job is a draft again: definition kept, results and attempts cleared."""
    _require(job, "reset", JobState.COMPLETED, JobState.FAILED, JobState.STOPPED, JobState.DRAFT)
    return job.evolve(
        state=JobState.DRAFT,
        reason=Reason(code=ReasonCode.RESET, message=f"reset by {by}"),
        attempts=(),
        failures=0,
        losses=0,
        results={},
        updated_at=now,
    )


def claimed(job: Job, session: Session, now: datetime) -> Job:
    """A worker session takes a queued job; the new fence outdates every earlier attempt."""
    _require(job, "claim", JobState.QUEUED)
    attempt = Attempt(
        fence=job.fence + 1, worker=session.worker, session=session.id, claimed_at=now
    )
    return job.evolve(
        state=JobState.STARTING,
        reason=Reason(code=ReasonCode.CLAIMED, message=f"claimed by worker {session.worker}"),
        waiting=None,
        fence=attempt.fence,
        attempts=(*job.attempts[-(ATTEMPTS_KEPT - 1) :], attempt),
        updated_at=now,
    )


def started(job: Job, fence: int, now: datetime, started_at: datetime) -> Job:
    """The process of the attempt runs; telling it twice changes nothing."""
    attempt = _attempt(job, fence)
    if job.state is JobState.RUNNING:
        return job
    return job.evolve(
        state=JobState.RUNNING,
        reason=Reason(code=ReasonCode.STARTED, message=f"running on worker {attempt.worker}"),
        attempts=(*job.attempts[:-1], attempt.evolve(started_at=started_at)),
        updated_at=now,
    )


def finished(
    job: Job,
    fence: int,
    outcome: Outcome,
    reason: Reason,
    now: datetime,
    *,
    results: dict[str, JsonValue] | None = None,
) -> Job:
    """The worker reports how the attempt ended.

    A stop that was asked for decides the state, unless the work was completed all the same.
    """
    attempt = _attempt(job, fence)
    if job.stop is not None and outcome is not Outcome.COMPLETED:
        outcome, reason = _stop_outcome(job.stop)
    if outcome in (Outcome.RELEASED, Outcome.LOST):
        return _interrupted(job, attempt, outcome, reason, now)
    if outcome is Outcome.FAILED and job.failures < job.spec.limits.retries and not job.stop:
        return _requeued(job, attempt, outcome, reason, now, failures=job.failures + 1)
    return _ended(job, attempt, outcome, reason, now, JobState(outcome), results or {})


def lost(job: Job, fence: int, reason: Reason, now: datetime) -> Job:
    """The lease of the attempt is over; a stop that was asked for wins over running again."""
    attempt = _attempt(job, fence)
    if job.stop is not None:
        outcome, asked = _stop_outcome(job.stop)
        ended = _ended(job, attempt, Outcome.LOST, reason, now, JobState(outcome), {})
        return ended.evolve(reason=asked)
    return _interrupted(job, attempt, Outcome.LOST, reason, now)


def stopped(job: Job, request: StopRequest) -> Job:
    """A waiting job ends at once; a running one is asked to, and its worker told."""
    _require(job, "stop", JobState.DRAFT, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
    if job.state.active:
        return job if job.stop else job.evolve(stop=request, updated_at=request.at)
    outcome, reason = _stop_outcome(request)
    return job.evolve(state=JobState(outcome), reason=reason, waiting=None, updated_at=request.at)


def _stop_outcome(stop: StopRequest) -> tuple[Outcome, Reason]:
    message = f"stopped by {stop.by}" + (f": {stop.message}" if stop.message else "")
    return stop.outcome, Reason(code=ReasonCode.STOP_REQUESTED, message=message[:4000])


def _ended(
    job: Job,
    attempt: Attempt,
    outcome: Outcome,
    reason: Reason,
    now: datetime,
    state: JobState,
    results: dict[str, JsonValue],
) -> Job:
    closed = attempt.evolve(finished_at=now, outcome=outcome, reason=reason)
    return job.evolve(
        state=state,
        reason=reason,
        attempts=(*job.attempts[:-1], closed),
        stop=None,
        results=results,
        updated_at=now,
    )


def _interrupted(
    job: Job, attempt: Attempt, outcome: Outcome, reason: Reason, now: datetime
) -> Job:
    """Infrastructure ended the attempt: again, unless that has happened too often."""
    losses = job.losses + 1
    if losses <= job.spec.limits.infrastructure_retries:
        return _requeued(job, attempt, outcome, reason, now, losses=losses)
    exhausted = Reason(
        code=ReasonCode.RETRIES_EXHAUSTED,
        message=f"interrupted {losses} times; the last time: {reason.message}"[:4000],
    )
    ended = _ended(job, attempt, outcome, reason, now, JobState.FAILED, {})
    return ended.evolve(reason=exhausted, losses=losses)


def _requeued(
    job: Job, attempt: Attempt, outcome: Outcome, reason: Reason, now: datetime, **counts: int
) -> Job:
    """Back to its old position, which is ahead of whatever came later."""
    closed = attempt.evolve(finished_at=now, outcome=outcome, reason=reason)
    return job.evolve(
        state=JobState.QUEUED,
        reason=reason,
        waiting=Waiting(permit_due_at=now + UNCONFIRMED, before=JobState.STOPPED),
        attempts=(*job.attempts[:-1], closed),
        stop=None,
        updated_at=now,
        **counts,
    )
