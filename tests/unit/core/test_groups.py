"""What becomes of a group when something happens to one of its jobs."""

import pytest

from tests.support.builders import EXITED, LOST, STOP, in_state, running, spec
from tests.support.clock import START
from xmcloud.core import lifecycle
from xmcloud.core.groups import settled, whole
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode

OTHERS = [state for state in JobState if not state.terminal and state is not JobState.DRAFT]


def named(name: str, job: Job) -> Job:
    return job.evolve(name=name)


def test_a_job_alone_is_as_it_was() -> None:
    for state in JobState:
        job = in_state(state)
        assert settled([job], START) == [job]


@pytest.mark.parametrize("ended", [JobState.FAILED, JobState.STOPPED])
@pytest.mark.parametrize("other", list(JobState))
def test_a_bad_end_ends_the_others(ended: JobState, other: JobState) -> None:
    first, second = settled([named("a", in_state(ended)), in_state(other)], START)
    assert first.state is ended
    if other.terminal or other is JobState.DRAFT:
        assert second == in_state(other)
    elif other in (JobState.STARTING, JobState.RUNNING):
        assert second.state is other
        assert second.stop is not None
        assert (second.stop.by, second.stop.outcome) == (lifecycle.GROUP, Outcome.STOPPED)
        assert second.stop.message == f"job a {ended}: {first.reason.message}"
    else:
        assert second.state is JobState.STOPPED
        assert second.reason.code is ReasonCode.GROUP_STOPPED


def test_what_is_run_again_takes_the_running_back_with_it() -> None:
    again = lifecycle.lost(running(), 1, LOST, START)
    done = in_state(JobState.COMPLETED)
    first, second, third = settled([named("a", again), running(), done], START)
    assert (first.state, third) == (JobState.QUEUED, done)
    assert second.stop is not None
    assert second.stop.outcome is Outcome.RELEASED
    back = lifecycle.finished(second, 1, Outcome.FAILED, EXITED, START)
    assert (back.state, back.failures, back.losses) == (JobState.QUEUED, 0, 0)
    assert settled([first, back, third], START) == [first, back, third]


def test_a_stop_that_people_asked_for_wins_over_running_again() -> None:
    again = lifecycle.lost(running(), 1, LOST, START)
    asked = lifecycle.stopped(running(), STOP)
    assert settled([again, asked], START) == [again, asked]
    assert lifecycle.lost(asked, 1, LOST, START).state is JobState.STOPPED


def test_running_again_gives_way_to_the_end() -> None:
    again = lifecycle.lost(running(), 1, LOST, START)
    _, released = settled([again, running()], START)
    _, stopped = settled([in_state(JobState.FAILED), released], START)
    assert stopped.stop is not None
    assert stopped.stop.outcome is Outcome.STOPPED


def test_a_group_is_whole_when_all_that_is_left_waits() -> None:
    queued, done = in_state(JobState.QUEUED), in_state(JobState.COMPLETED)
    assert whole([queued, queued])
    assert whole([queued, done])
    assert not whole([done, done])
    for state in set(JobState) - {JobState.QUEUED, JobState.COMPLETED}:
        assert not whole([queued, in_state(state)])


def test_the_reason_names_the_cause_though_it_is_long() -> None:
    reason = EXITED.evolve(message="x" * 4000)
    failed = lifecycle.finished(running(spec()), 1, Outcome.FAILED, reason, START)
    _, other = settled([named("a", failed), running()], START)
    assert other.stop is not None
    assert other.stop.message.startswith("job a failed: xxx")
    assert len(other.stop.message) == 1000
