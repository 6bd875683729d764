"""Each transition from each state, and what decides between two that meet."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.builders import (
    BUILD_ID,
    EXITED,
    LOST,
    SESSION_ID,
    STOP,
    draft,
    ended,
    in_state,
    queued,
    running,
    spec,
    starting,
)
from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.errors import IllegalTransition, StaleFence
from xmcloud.core.lifecycle import CONFIRMED, UNCONFIRMED
from xmcloud.core.models import Job, JobState, Outcome, Reason, ReasonCode, Remote
from xmcloud.core.specs import Image, Overflow

D, B, Q, S, R, C, F, X = JobState
ALL = set(JobState)
LATER = START + timedelta(minutes=1)
IMAGE = "registry/train@sha256:0"
BROKEN = Reason(code=ReasonCode.BUILD_FAILED, message="step RUN pip install failed")
NAMED: dict[str, tuple[Callable[[Job], Job], set[JobState], ReasonCode]] = {
    "enqueue": (
        lambda job: lifecycle.enqueued(job, "low", 7, "ann", LATER),
        {D, X, F},
        ReasonCode.ENQUEUED,
    ),
    "dequeue": (lambda job: lifecycle.dequeued(job, "ann", LATER), {Q, B}, ReasonCode.DEQUEUED),
    "move": (lambda job: lifecycle.moved(job, "low", 7, LATER), {Q}, ReasonCode.ENQUEUED),
    "edit": (
        lambda job: lifecycle.edited(job, LATER, spec=None, name="other"),
        {D},
        ReasonCode.CREATED,
    ),
    "reset": (lambda job: lifecycle.reset(job, "ann", LATER), {D, C, F, X}, ReasonCode.RESET),
    "give an image to": (lambda job: lifecycle.built(job, IMAGE, LATER), {B}, ReasonCode.BUILT),
    "fail the build of": (
        lambda job: lifecycle.unbuildable(job, BROKEN, LATER),
        {B},
        ReasonCode.BUILD_FAILED,
    ),
    "overflow": (
        lambda job: lifecycle.overflowed(_overflowing(job), "nobody came", LATER),
        {Q},
        ReasonCode.OVERFLOWED,
    ),
    "claim": (lambda job: lifecycle.claimed(job, "w", SESSION_ID, LATER), {Q}, ReasonCode.CLAIMED),
}
LEADS_TO = {
    "enqueue": Q,
    "dequeue": D,
    "move": Q,
    "edit": D,
    "reset": D,
    "give an image to": Q,
    "fail the build of": F,
    "overflow": Q,
    "claim": S,
}


def _overflowing(job: Job) -> Job:
    overflow = Overflow(target="vertex", after_seconds=60)
    return job.evolve(spec=job.spec.evolve(overflow=overflow))


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("action", NAMED)
def test_a_named_transition(action: str, state: JobState) -> None:
    transition, legal, code = NAMED[action]
    job = in_state(state)
    if state in legal:
        after = transition(job)
        assert (after.state, after.reason.code) == (LEADS_TO[action], code)
        assert after.updated_at == LATER
        assert after.fence == job.fence + (action == "claim")
        return
    with pytest.raises(IllegalTransition) as refused:
        transition(job)
    assert f"Cannot {action} job {job.full_name}: it is {state}." == refused.value.detail
    named = refused.value.remedy.removeprefix("That is possible from: ").rstrip(".").split(", ")
    assert set(named) == legal
    assert refused.value.status == 409


@pytest.mark.parametrize("state", JobState)
def test_stop(state: JobState) -> None:
    job = in_state(state)
    if state.terminal:
        with pytest.raises(IllegalTransition, match="draft, building, queued, starting, running"):
            lifecycle.stopped(job, STOP)
    elif state.active:
        asked = lifecycle.stopped(job, STOP)
        assert (asked.state, asked.stop) == (state, STOP)
        assert lifecycle.stopped(asked, STOP.evolve(by="ben")) == asked
    else:
        stopped = lifecycle.stopped(job, STOP.evolve(outcome=Outcome.FAILED))
        assert stopped.state is F
        assert stopped.reason.code is ReasonCode.STOP_REQUESTED
        assert stopped.reason.message == "stopped by ann: enough"


OF_AN_ATTEMPT: dict[str, Callable[[Job, int], Job]] = {
    "started": lambda job, fence: lifecycle.started(job, fence, LATER, LATER),
    "finished": lambda job, fence: lifecycle.finished(job, fence, Outcome.COMPLETED, EXITED, LATER),
    "lost": lambda job, fence: lifecycle.lost(job, fence, LOST, LATER),
}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("report", OF_AN_ATTEMPT)
def test_what_an_attempt_says_counts_while_it_is_open(report: str, state: JobState) -> None:
    job = in_state(state)
    fences = {0, 2, 7} if state.active else {0, 1, 2}
    for stale in fences:
        with pytest.raises(StaleFence) as refused:
            OF_AN_ATTEMPT[report](job, stale)
        assert refused.value.status == 409
    if state.active:
        assert OF_AN_ATTEMPT[report](job, 1) != job or (report, state) == ("started", R)


@pytest.mark.parametrize("job", [starting(), running()], ids=["starting", "running"])
@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.COMPLETED, C),
        (Outcome.FAILED, F),
        (Outcome.STOPPED, X),
        (Outcome.LOST, Q),
        (Outcome.RELEASED, Q),
    ],
)
def test_an_outcome_and_the_state_it_leads_to(job: Job, outcome: Outcome, state: JobState) -> None:
    after = lifecycle.finished(job, 1, outcome, EXITED, LATER, results={"loss": 1.0})
    assert after.state is state
    assert after.reason == EXITED
    (attempt,) = after.attempts
    assert (attempt.outcome, attempt.reason, attempt.finished_at) == (outcome, EXITED, LATER)
    assert after.results == ({"loss": 1.0} if state.terminal else {})


def test_started_twice_changes_nothing() -> None:
    once = lifecycle.started(starting(), 1, LATER, START)
    assert once.attempt is not None
    assert once.attempt.started_at == START
    assert lifecycle.started(once, 1, LATER + UNCONFIRMED, LATER) == once


def test_the_fence_only_grows_over_loss_and_reset() -> None:
    job = queued()
    for expected in (1, 2, 3):
        job = lifecycle.claimed(job, "w", SESSION_ID, START)
        assert job.fence == expected == job.attempts[-1].fence
        job = lifecycle.lost(job, expected, LOST, START)
    job = lifecycle.reset(lifecycle.stopped(job, STOP), "ann", START)
    assert (job.fence, job.attempts) == (3, ())
    again = lifecycle.claimed(
        lifecycle.enqueued(job, "default", 1, "ann", START), "w", SESSION_ID, START
    )
    assert again.fence == 4


def test_failures_and_losses_have_budgets_of_their_own() -> None:
    job = queued(spec(retries=1, infrastructure_retries=2))
    for outcome in (Outcome.LOST, Outcome.FAILED, Outcome.RELEASED):
        job = lifecycle.claimed(job, "w", SESSION_ID, START)
        job = lifecycle.finished(job, job.fence, outcome, EXITED, START)
        assert job.state is Q
    assert (job.failures, job.losses) == (1, 2)
    job = lifecycle.claimed(job, "w", SESSION_ID, START)
    assert lifecycle.finished(job, job.fence, Outcome.FAILED, EXITED, START).state is F
    exhausted = lifecycle.lost(job, job.fence, LOST, START)
    assert exhausted.state is F
    assert exhausted.reason.code is ReasonCode.RETRIES_EXHAUSTED
    assert exhausted.reason.message == "interrupted 3 times; the last time: worker w lost"
    assert exhausted.attempts[-1].reason == LOST


def test_enqueueing_again_gives_new_budgets_and_clears_results() -> None:
    failed = ended(Outcome.FAILED)
    assert failed.results
    again = lifecycle.enqueued(failed.evolve(losses=3), "low", 7, "ann", LATER)
    assert (again.failures, again.losses, again.results) == (0, 0, {})
    assert (again.queue, again.position) == ("low", 7)
    assert again.attempts == failed.attempts


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.FAILED, Outcome.COMPLETED])
def test_a_stop_wins_over_everything_but_completion(outcome: Outcome) -> None:
    request = STOP.evolve(outcome=outcome)
    asked = lifecycle.stopped(running(spec(retries=3)), request)
    for end in (Outcome.FAILED, Outcome.STOPPED, Outcome.RELEASED, Outcome.LOST):
        after = lifecycle.finished(asked, 1, end, EXITED, LATER)
        assert (after.state, after.stop) == (JobState(outcome), None)
        assert after.reason.code is ReasonCode.STOP_REQUESTED
    after = lifecycle.lost(asked, 1, LOST, LATER)
    assert after.state is JobState(outcome)
    assert after.reason.message == "stopped by ann: enough"
    assert (after.attempts[-1].outcome, after.attempts[-1].reason) == (Outcome.LOST, LOST)
    completed = lifecycle.finished(asked, 1, Outcome.COMPLETED, EXITED, LATER)
    assert (completed.state, completed.reason) == (C, EXITED)


@pytest.mark.parametrize("before", [D, X, F])
def test_dequeue_returns_to_the_state_before(before: JobState) -> None:
    job = lifecycle.enqueued(in_state(before), "default", 1, "ann", START)
    assert lifecycle.dequeued(job, "ann", START).state is before


def test_when_the_permit_is_due() -> None:
    job = queued()
    assert job.waiting is not None
    assert job.waiting.permit_due_at == START + UNCONFIRMED
    confirmed = lifecycle.permit_confirmed(job, START)
    assert confirmed.waiting is not None
    assert confirmed.waiting.permit_due_at == START + CONFIRMED
    here = lifecycle.moved(confirmed, "default", 9, LATER)
    there = lifecycle.moved(confirmed, "low", 9, LATER)
    assert here.waiting == confirmed.waiting
    assert there.waiting is not None
    assert there.waiting.permit_due_at == LATER + UNCONFIRMED
    lost = lifecycle.lost(starting(), 1, LOST, LATER)
    assert lost.waiting is not None
    assert lost.waiting.permit_due_at == LATER + UNCONFIRMED


def test_history_is_kept_to_a_bound() -> None:
    job = queued(spec(infrastructure_retries=20))
    for _ in range(60):
        job = lifecycle.claimed(job.evolve(losses=0), "w", SESSION_ID, START)
        job = lifecycle.lost(job, job.fence, LOST, START)
    assert len(job.attempts) == lifecycle.ATTEMPTS_KEPT
    assert (job.attempts[-1].fence, job.fence) == (60, 60)


def test_a_draft_is_edited() -> None:
    other = spec(pool="gpu")
    edited = lifecycle.edited(draft(), LATER, spec=other, name=None)
    assert (edited.spec, edited.name) == (other, "train")


def test_positions_follow_time() -> None:
    micro = timedelta(microseconds=1)
    assert lifecycle.position_at(START + micro) == lifecycle.position_at(START) + lifecycle.PLACE


def test_a_job_gets_its_image_when_that_is_built() -> None:
    job = in_state(B)
    assert (job.pending_build, job.waiting) == (BUILD_ID, None)
    built = lifecycle.built(job, IMAGE, LATER)
    assert isinstance(built.spec.executable, Image)
    assert (built.spec.executable.image, built.pending_build) == (IMAGE, None)
    assert built.position == job.position
    again = lifecycle.enqueued(lifecycle.dequeued(built, "ann", LATER), "low", 2, "ann", LATER)
    assert again.state is Q


def test_when_a_job_overflows() -> None:
    overflow = Overflow(target="vertex", after_seconds=60)
    job = queued(spec(pool="gpu").evolve(overflow=overflow))
    assert job.waiting is not None
    assert (job.pool, job.waiting.overflow_at) == ("gpu", LATER)
    over = lifecycle.overflowed(lifecycle.permit_confirmed(job, START), "nobody came", LATER)
    assert over.waiting is not None
    assert (over.pool, over.waiting.overflow_at) == ("vertex", None)
    assert over.waiting.permit_due_at == LATER + UNCONFIRMED
    claimed = lifecycle.claimed(over, "vertex", SESSION_ID, LATER)
    lost = lifecycle.lost(claimed, 1, LOST, LATER)
    assert (lost.pool, lost.waiting and lost.waiting.overflow_at) == ("vertex", None)
    drafted = lifecycle.reset(lifecycle.stopped(lost, STOP), "ann", LATER)
    assert drafted.pool == "gpu"


def test_a_target_that_has_no_room_sends_the_job_back_uncounted() -> None:
    why = Reason(code=ReasonCode.QUOTA, message="no T4 left")
    back = lifecycle.postponed(starting(), 1, why, LATER, START)
    assert (back.state, back.reason, back.losses, back.failures) == (Q, why, 0, 0)
    assert back.waiting is not None
    assert back.waiting.not_before == LATER
    confirmed = lifecycle.permit_confirmed(back, START)
    assert confirmed.waiting is not None
    assert confirmed.waiting.permit_due_at == LATER
    asked = lifecycle.stopped(starting(), STOP)
    assert lifecycle.postponed(asked, 1, why, LATER, START).state is X


def test_what_a_platform_calls_an_attempt_is_written_down_once() -> None:
    remote = Remote(name="jobs/7")
    once = lifecycle.submitted(starting(), 1, remote, LATER)
    assert once.attempt is not None
    assert (once.state, once.attempt.remote) == (S, remote)
    assert lifecycle.submitted(once, 1, remote, LATER + UNCONFIRMED) == once


def test_a_job_released_with_its_group_waits_again_uncounted() -> None:
    release = STOP.evolve(outcome=Outcome.RELEASED, by=lifecycle.GROUP)
    asked = lifecycle.stopped(running(), release)
    for after in (
        lifecycle.finished(asked, 1, Outcome.FAILED, EXITED, LATER),
        lifecycle.lost(asked, 1, LOST, LATER),
    ):
        assert (after.state, after.losses, after.failures, after.stop) == (Q, 0, 0, None)
        assert after.reason.code is ReasonCode.GROUP_RESTARTED
    assert lifecycle.finished(asked, 1, Outcome.COMPLETED, EXITED, LATER).state is C
    assert lifecycle.stopped(asked, release.evolve(message="again")) == asked
    assert lifecycle.stopped(asked, STOP).stop == STOP
