"""What must be true, kept apart from the control plane and much simpler than it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.worker_protocol import Claim

Fence = tuple[int, str]
"""The number of an attempt and the session that holds it."""

Attempt = tuple[str, int]
"""A job and the number of one of its attempts."""

LEGAL: dict[str, set[JobState]] = {
    "enqueue": {JobState.DRAFT, JobState.STOPPED, JobState.FAILED},
    "dequeue": {JobState.QUEUED},
    "move": {JobState.QUEUED},
    "edit": {JobState.DRAFT},
    "reset": {JobState.DRAFT, JobState.COMPLETED, JobState.FAILED, JobState.STOPPED},
    "stop": {JobState.DRAFT, JobState.QUEUED, JobState.STARTING, JobState.RUNNING},
}


@dataclass
class Ledger:
    """Who may run what: open sessions with their expiry, and who holds which job."""

    leases: dict[str, datetime] = field(default_factory=dict)
    holders: dict[str, Fence] = field(default_factory=dict)
    stops: dict[str, Outcome] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    expected: dict[str, JobState] = field(default_factory=dict)

    def valid(self, session: str, now: datetime) -> bool:
        return session in self.leases and now < self.leases[session]

    def claimed(self, job: Job, session: str, now: datetime) -> None:
        holder = self.holders.get(job.id)
        assert holder is None or not self.valid(holder[1], now), f"{job.id} runs twice"
        assert holder is None or holder[0] < job.fence, f"{job.id} has a fence of before"
        self.holders[job.id] = (job.fence, session)
        self.expected[job.id] = JobState.STARTING

    def started(self, job: str) -> None:
        self.expected[job] = JobState.RUNNING

    def stop(self, job: Job, outcome: Outcome) -> None:
        """Only the first request counts."""
        if job.id in self.holders:
            self.stops.setdefault(job.id, outcome)
        else:
            self.expected[job.id] = JobState(outcome)

    def stops_of(self, session: str) -> set[Attempt]:
        """What it holds and is to stop."""
        return {
            (job, fence)
            for job, (fence, holder) in self.holders.items()
            if holder == session and job in self.stops
        }

    def attempt_ended(self, job: Job, outcome: Outcome) -> None:
        """Writes down what must become of the job as it was before."""
        del self.holders[job.id]
        self.expected[job.id] = _next_state(job, outcome, self.stops.pop(job.id, None))

    def session_ended(self, session: str, jobs: dict[str, Job]) -> None:
        self.leases.pop(session, None)
        for id, (_, holder) in list(self.holders.items()):
            if holder == session:
                self.attempt_ended(jobs[id], Outcome.LOST)

    def swept(self, now: datetime, jobs: dict[str, Job]) -> None:
        """Leases that are over, at this very instant too, and claims that came too late."""
        over = [session for session in self.leases if not self.valid(session, now)]
        late = {session for _, session in self.holders.values() if session not in self.leases}
        for session in (*over, *late):
            self.session_ended(session, jobs)


def _next_state(job: Job, outcome: Outcome, stop: Outcome | None) -> JobState:
    limits = job.spec.limits
    if outcome is Outcome.COMPLETED:
        return JobState.COMPLETED
    if stop is not None:
        return JobState(stop)
    if outcome is Outcome.FAILED:
        return JobState.QUEUED if job.failures < limits.retries else JobState.FAILED
    if outcome is Outcome.STOPPED:
        return JobState.STOPPED
    return JobState.QUEUED if job.losses < limits.infrastructure_retries else JobState.FAILED


def line(jobs: Iterable[Job], queue: str, pool: str) -> list[Job]:
    """What waits in a queue for a pool, in order."""
    waits = [
        job
        for job in jobs
        if job.state is JobState.QUEUED and job.queue == queue and job.spec.pool in ("", pool)
    ]
    return sorted(waits, key=lambda job: (job.position, job.id))


def expected_claim(
    jobs: Sequence[Job], pool: str, claim: Claim, paused: set[str]
) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The jobs that a claim must get, and each queue with its answer and how many came of it.

    Nobody looks into a queue when no slot is free for it.
    """
    slots, free = claim.slots, dict(claim.resources)
    taken: list[str] = []
    answers: list[tuple[str, str, int]] = []
    for queue in claim.queues:
        if queue in paused:
            answers.append((queue, "paused", 0))
            continue
        if not slots:
            break
        answer, before = "empty", len(taken)
        for job in line(jobs, queue, pool):
            if any(free.get(name, 0) < amount for name, amount in job.spec.resources.items()):
                answer = "unfit"
            elif not slots:
                answer = "more"
                break
            else:
                slots -= 1
                taken.append(job.id)
                free |= {name: free[name] - n for name, n in job.spec.resources.items()}
        answers.append((queue, answer, len(taken) - before))
    return taken, answers


def check_history(before: Job, after: Job, *, free: bool) -> None:
    """What no step may do to a job; `free` after it was reset or enqueued."""
    assert after.fence >= before.fence, "a fence went back"
    assert (after.id, after.unit, after.experiment_id) == (
        before.id,
        before.unit,
        before.experiment_id,
    )
    if before.state.terminal and not free:
        assert after == before, "a finished job changed"
    if not free:
        closed = [attempt for attempt in before.attempts if not attempt.open]
        assert list(after.attempts[: len(closed)]) == closed, "history was rewritten"
        assert len(after.attempts) >= len(before.attempts)
    fences = [attempt.fence for attempt in after.attempts]
    assert fences == sorted(set(fences)), "two attempts have one fence"
    assert all(fence <= after.fence for fence in fences)
    assert after.failures <= after.spec.limits.retries
    assert after.losses <= after.spec.limits.infrastructure_retries + 1
    completions = [a for a in after.attempts if a.outcome is Outcome.COMPLETED]
    assert len(completions) <= 1, "completed twice"
