"""Jobs in the states that views show."""

from datetime import UTC, datetime, timedelta
from typing import Any

from xmcloud.core.models import Attempt, Job, JobState, Outcome, Reason, ReasonCode, Waiting
from xmcloud.core.specs import Argument, Command, JobSpec

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def arguments(**flags: Any) -> tuple[Argument, ...]:
    return tuple(Argument(name=name, value=value) for name, value in flags.items())


def job(
    unit: int,
    state: JobState = JobState.QUEUED,
    *,
    seconds: float = 1.0,
    message: str = "exit code 1",
    results: dict[str, Any] | None = None,
    given: tuple[Argument, ...] = (),
) -> Job:
    reason = Reason(code=ReasonCode.EXITED, message=message)
    queued = Waiting(permit_due_at=BEGAN, before=JobState.DRAFT)
    ended = BEGAN + timedelta(seconds=seconds)
    return Job(
        id=f"{'a' * 14}{chr(97 + unit // 26)}{chr(97 + unit % 26)}",
        experiment_id="b" * 16,
        unit=unit,
        name="job",
        spec=JobSpec(executable=Command(command=("x",)), arguments=given),
        state=state,
        fence=1 if state.active or state.terminal else 0,
        reason=reason,
        queue="default",
        position=unit,
        waiting=queued if state is JobState.QUEUED else None,
        attempts=_attempts(state, ended, reason),
        results=results or {},
        created_at=BEGAN,
        updated_at=ended,
        batch="0" * 64,
    )


def _attempts(state: JobState, ended: datetime, reason: Reason) -> tuple[Attempt, ...]:
    if not (state.active or state.terminal):
        return ()
    attempt = Attempt(
        fence=1,
        worker="ant",
        session="c" * 16,
        claimed_at=BEGAN,
        started_at=None if state is JobState.STARTING else BEGAN,
    )
    if state.terminal:
        outcome = Outcome(state.value)
        attempt = attempt.evolve(finished_at=ended, outcome=outcome, reason=reason)
    return (attempt,)
