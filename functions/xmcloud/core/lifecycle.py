"""The life of a job: every change of state is a named function, and carries a reason.

    draft -> building -> queued -> starting -> running -> completed | failed | stopped

Functions are pure: a job and the facts in, the next job out, or a refusal. An attempt that is
lost or released sends its job back to the queue while retries last. What the end of one job
means for the rest of its group is in `groups`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from xmcloud.core.errors import IllegalTransition, StaleFence
from xmcloud.core.models import (
    Attempt,
    Execution,
    Job,
    JobState,
    Outcome,
    Peer,
    Reason,
    ReasonCode,
    Remote,
    StopRequest,
    Waiting,
)
from xmcloud.core.runs import for_anyone
from xmcloud.core.specs import JobSpec

UNCONFIRMED = timedelta(seconds=10)
"""How long after a write the sweep waits for the word that its permit went out."""

CONFIRMED = timedelta(hours=1)
"""How long a confirmed permit is trusted before it is published again."""

ATTEMPTS_KEPT = 50

GROUP = "its group"
"""By whom a job is stopped when another one of its group ended."""

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


def waiting_from(spec: JobSpec, before: JobState, now: datetime, overflowed: bool) -> Waiting:
    """What a job knows that begins to wait at `now`."""
    overflow = spec.overflow
    return Waiting.model_validate(
        {
            "permit_due_at": now + UNCONFIRMED,
            "before": before,
            "overflow_at": now + timedelta(seconds=overflow.after_seconds)
            if overflow and not overflowed
            else None,
        }
    )


def enqueued(
    job: Job,
    queue: str,
    position: int,
    by: str,
    now: datetime,
    *,
    overflowed: bool = False,
    trace: str = "",
) -> Job:
    """A draft, stopped or failed job waits at `position` of `queue`, its results cleared.

    Without its image, it waits for that first.
    """
    _require(job, "enqueue", JobState.DRAFT, JobState.STOPPED, JobState.FAILED)
    building = job.pending_build is not None
    return job.evolve(
        state=JobState.BUILDING if building else JobState.QUEUED,
        reason=Reason(code=ReasonCode.ENQUEUED, message=f"enqueued by {by}"),
        spec=for_anyone(job.spec),
        waiting=None if building else waiting_from(job.spec, job.state, now, overflowed),
        queue=queue,
        position=position,
        overflowed=overflowed,
        failures=0,
        losses=0,
        results={},
        updated_at=now,
        trace=trace,
    )


def built(job: Job, image: str, now: datetime) -> Job:
    """The image is there: the job waits for whoever runs it."""
    _require(job, "give an image to", JobState.BUILDING)
    executable = job.spec.executable.evolve(image=image)
    return job.evolve(
        state=JobState.QUEUED,
        spec=job.spec.evolve(executable=executable),
        reason=Reason(code=ReasonCode.BUILT, message=f"its image is {image}"),
        waiting=waiting_from(job.spec, JobState.DRAFT, now, job.overflowed),
        updated_at=now,
    )


def unbuildable(job: Job, reason: Reason, now: datetime) -> Job:
    """The image will not come."""
    _require(job, "fail the build of", JobState.BUILDING)
    return job.evolve(state=JobState.FAILED, reason=reason, updated_at=now)


def dequeued(job: Job, by: str, now: datetime) -> Job:
    """A queued job returns to the state it was enqueued from, one without its image to a draft."""
    _require(job, "dequeue", JobState.QUEUED, JobState.BUILDING)
    return job.evolve(
        state=job.waiting.before if job.waiting else JobState.DRAFT,
        reason=Reason(code=ReasonCode.DEQUEUED, message=f"taken out of {job.queue} by {by}"),
        waiting=None,
        overflowed=False,
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
    """The broker holds a permit for this queued job; one that must wait gets another then."""
    assert job.waiting is not None
    later = job.waiting.not_before
    due = later if later is not None and later > now else now + CONFIRMED
    return job.evolve(waiting=job.waiting.evolve(permit_due_at=due))


def overflowed(job: Job, message: str, now: datetime) -> Job:
    """A queued job goes from its pool to its overflow target, which needs a permit of its own."""
    _require(job, "overflow", JobState.QUEUED)
    assert job.waiting is not None
    return job.evolve(
        overflowed=True,
        reason=Reason(code=ReasonCode.OVERFLOWED, message=message),
        waiting=job.waiting.evolve(overflow_at=None, permit_due_at=now + UNCONFIRMED),
        updated_at=now,
    )


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
        overflowed=False,
        results={},
        updated_at=now,
    )


def claimed(
    job: Job,
    worker: str,
    session: str,
    now: datetime,
    peers: Mapping[str, Peer] | None = None,
) -> Job:
    """The session of a worker or target takes a queued job; earlier fences are outdated."""
    _require(job, "claim", JobState.QUEUED)
    earlier = tuple(
        each.evolve(execution=None) if each.execution else each
        for each in job.attempts[-(ATTEMPTS_KEPT - 1) :]
    )
    attempt = Attempt(
        fence=job.fence + 1,
        worker=worker,
        session=session,
        claimed_at=now,
        peers=dict(peers or {}),
    )
    return job.evolve(
        state=JobState.STARTING,
        reason=Reason(code=ReasonCode.CLAIMED, message=f"claimed by {worker}"),
        waiting=None,
        fence=attempt.fence,
        attempts=(*earlier, attempt),
        updated_at=now,
    )


def adopted(job: Job, fence: int, worker: str, session: str, now: datetime) -> Job:
    """The worker comes back under another session and still has the attempt, which goes on.

    Also one that was given up for lost meanwhile, as long as nobody else has taken the job.
    """
    attempt = job.attempts[-1] if job.attempts else None
    if attempt is None or (attempt.fence, attempt.worker) != (fence, worker):
        raise StaleFence(job.id, fence, f"the job is {job.state} at fence {job.fence}")
    if attempt.open:
        return job.evolve(attempts=(*job.attempts[:-1], attempt.evolve(session=session)))
    given_up = job.state is JobState.QUEUED and attempt.outcome is Outcome.LOST
    if not given_up or job.group or job.fence != fence:
        raise StaleFence(job.id, fence, f"the job is {job.state} at fence {job.fence}")
    again = attempt.evolve(session=session, finished_at=None, outcome=None, reason=None)
    return job.evolve(
        state=JobState.RUNNING if attempt.started_at else JobState.STARTING,
        reason=Reason(code=ReasonCode.RESUMED, message=f"{worker} came back and still runs it"),
        waiting=None,
        losses=max(0, job.losses - 1),
        attempts=(*job.attempts[:-1], again),
        updated_at=now,
    )


def submitted(job: Job, fence: int, remote: Remote, now: datetime) -> Job:
    """The platform has taken the attempt; it may run already."""
    attempt = _attempt(job, fence)
    if attempt.remote == remote:
        return job
    return job.evolve(
        attempts=(*job.attempts[:-1], attempt.evolve(remote=remote)),
        reason=Reason(code=ReasonCode.SUBMITTED, message=f"submitted to {attempt.worker}")
        if job.state is JobState.STARTING
        else job.reason,
        updated_at=now,
    )


def postponed(job: Job, fence: int, reason: Reason, until: datetime, now: datetime) -> Job:
    """The target does not take the attempt now: the job waits on, and nothing is counted.

    One that was asked to stop ends instead.
    """
    attempt = _attempt(job, fence)
    if job.stop is not None and job.stop.outcome is not Outcome.RELEASED:
        return lost(job, fence, reason, now)
    back = _requeued(job, attempt, Outcome.RELEASED, reason, now)
    assert back.waiting is not None
    return back.evolve(waiting=back.waiting.evolve(not_before=until))


def refused(job: Job, fence: int, reason: Reason, now: datetime) -> Job:
    """The target will never take the job as it is defined: trying again would not help.

    One that was asked to stop ends so instead.
    """
    attempt = _attempt(job, fence)
    if job.stop is not None:
        return lost(job, fence, reason, now)
    return _ended(job, attempt, Outcome.FAILED, reason, now, JobState.FAILED, {})


def started(
    job: Job,
    fence: int,
    now: datetime,
    started_at: datetime,
    execution: Execution | None = None,
) -> Job:
    """The process of the attempt runs; telling it twice changes nothing."""
    attempt = _attempt(job, fence)
    if job.state is JobState.RUNNING:
        return job
    return job.evolve(
        state=JobState.RUNNING,
        reason=Reason(code=ReasonCode.STARTED, message=f"running on {attempt.worker}"),
        attempts=(
            *job.attempts[:-1],
            attempt.evolve(started_at=started_at, execution=execution),
        ),
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
        if outcome is Outcome.RELEASED:
            return _requeued(job, attempt, outcome, reason, now)
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
        if outcome is Outcome.RELEASED:
            return _requeued(job, attempt, Outcome.LOST, asked, now)
        ended = _ended(job, attempt, Outcome.LOST, reason, now, JobState(outcome), {})
        return ended.evolve(reason=asked)
    return _interrupted(job, attempt, Outcome.LOST, reason, now)


def outlives(job: Job, until: datetime | None, now: datetime) -> Job:
    """A job of an auxiliary unit goes on until then; None: as long as there is work."""
    if job.auxiliary is None or job.state.terminal:
        return job
    return job.evolve(auxiliary=job.auxiliary.evolve(ends_at=until), updated_at=now)


def stopped(job: Job, request: StopRequest) -> Job:
    """A waiting job ends at once; a running one is asked to, and its worker told."""
    _require(
        job,
        "stop",
        JobState.DRAFT,
        JobState.BUILDING,
        JobState.QUEUED,
        JobState.STARTING,
        JobState.RUNNING,
    )
    if job.state.active:
        kept = job.stop is not None and (
            job.stop.outcome is not Outcome.RELEASED or request.outcome is Outcome.RELEASED
        )
        return job if kept else job.evolve(stop=request, updated_at=request.at)
    outcome, reason = _stop_outcome(request)
    return job.evolve(state=JobState(outcome), reason=reason, waiting=None, updated_at=request.at)


def _stop_outcome(stop: StopRequest) -> tuple[Outcome, Reason]:
    if stop.outcome is Outcome.RELEASED:
        code = ReasonCode.GROUP_RESTARTED
    else:
        code = ReasonCode.STOP_REQUESTED if stop.by != GROUP else ReasonCode.GROUP_STOPPED
    message = f"stopped by {stop.by}" + (f": {stop.message}" if stop.message else "")
    return stop.outcome, Reason(code=code, message=message[:4000])


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
        waiting=waiting_from(job.spec, JobState.STOPPED, now, job.overflowed),
        attempts=(*job.attempts[:-1], closed),
        stop=None,
        updated_at=now,
        **counts,
    )
