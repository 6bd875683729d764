"""What one job of a group means for the others: they start whole, and end together.

A job that failed or was stopped stops the rest. One that is to run again takes the rest back to
the queue with it; what completed before stays completed.
"""

from collections.abc import Sequence
from datetime import datetime

from xmcloud.core.lifecycle import GROUP, stopped
from xmcloud.core.models import Job, JobState, Outcome, StopRequest


def settled(jobs: Sequence[Job], now: datetime) -> list[Job]:
    """The jobs of one group after the consequences of what just happened to any of them."""
    if len(jobs) == 1:
        return list(jobs)
    ended = next((j for j in jobs if j.state in (JobState.FAILED, JobState.STOPPED)), None)
    if ended is not None:
        request = _request(ended, Outcome.STOPPED, now)
        return [job if job.state.terminal else _stopped(job, request) for job in jobs]
    again = next((j for j in jobs if j.state is JobState.QUEUED), None)
    if again is not None and any(job.state.active for job in jobs):
        request = _request(again, Outcome.RELEASED, now)
        return [_stopped(job, request) if job.state.active else job for job in jobs]
    return list(jobs)


def whole(jobs: Sequence[Job]) -> bool:
    """Whether all that is left of the group waits, so that it can start together."""
    left = [job for job in jobs if job.state is not JobState.COMPLETED]
    return bool(left) and all(job.state is JobState.QUEUED for job in left)


def _request(cause: Job, outcome: Outcome, now: datetime) -> StopRequest:
    how = "is run again" if outcome is Outcome.RELEASED else str(cause.state)
    message = f"job {cause.name} {how}: {cause.reason.message}"[:1000]
    return StopRequest.model_validate(
        {"by": GROUP, "message": message, "outcome": outcome, "at": now}
    )


def _stopped(job: Job, request: StopRequest) -> Job:
    if job.state is JobState.DRAFT:
        return job
    return stopped(job, request)
