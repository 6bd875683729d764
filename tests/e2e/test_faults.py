"""Processes that are killed, and services that are away: nothing is lost and nothing runs twice."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import httpx
import psutil
import pytest

from tests.e2e.stack import Line, Stack, Trace, lives, until
from xmcloud.core.models import Job, JobState, Outcome, Reason, ReasonCode, Session
from xmcloud.core.worker_protocol import (
    Finished,
    OpenSession,
    Output,
    Pull,
    Pulled,
    Started,
    SubscriptionRef,
    Sync,
    SyncAnswer,
)
from xmcloud.xm_cloud.places import address

JOBS = 10
LINES = "".join(f"{number}\n" for number in range(1, 200_001)).encode()
"""More than fits into one report."""


def _sync(stack: Stack, session: str, request: Sync) -> httpx.Response:
    place = address(stack.environment)
    return httpx.post(
        f"{place.url}/v1/sessions/{session}/sync",
        content=request.model_dump_json(),
        headers={**place.credentials.headers(), "content-type": "application/json"},
        timeout=60,
        trust_env=False,
    )


def _session_of(stack: Stack, worker: str) -> Session:
    (session,) = [each for each in stack.client.workers().sessions if each.worker == worker]
    return session


def _until_running(stack: Stack, job: str) -> None:
    until(lambda: stack.client.job(job).state is JobState.RUNNING, "the job is known to run")


def _late(line: Line) -> Sync:
    """What a killed worker might still have had to say of that attempt."""
    job, fence = line.job, line.attempt
    reason = Reason(code=ReasonCode.EXITED, message="exit code 0", exit_code=0)
    return Sync(
        reports=(
            Started(job_id=job, fence=fence, at=datetime.now(UTC)),
            Output(job_id=job, fence=fence, offset=0, data=b"ZnJvbSB0aGUgZ3JhdmU="),
            Finished(
                job_id=job,
                fence=fence,
                outcome=Outcome.COMPLETED,
                reason=reason,
                results={"from": "the grave"},
            ),
        )
    )


def _assert_late_writes_change_nothing(
    stack: Stack, lost: Sequence[Line], old: Session, new: str
) -> None:
    """Neither in the old session, nor in the one that runs the jobs now with the old fence."""
    for line in lost:
        # Its process began before the control plane was told.
        _until_running(stack, line.job)
        before = stack.client.job(line.job)
        answer = _sync(stack, old.id, _late(line))
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:xmcloud:problem:lease-lost"
        taken = SyncAnswer.model_validate_json(_sync(stack, new, _late(line)).content)
        assert [r.problem.status for r in taken.results if r.problem is not None] == [409] * 3
        assert stack.client.job(line.job) == before
        assert stack.client.log(line.job, line.attempt).data == b""
        assert stack.client.log(line.job).data == b""


def _assert_each_ran_to_its_end_once(
    trace: Trace, jobs: Sequence[Job], lost: Collection[str]
) -> None:
    assert len(jobs) == JOBS
    for job in jobs:
        last = [Outcome.LOST, Outcome.COMPLETED] if job.id in lost else [Outcome.COMPLETED]
        assert [attempt.outcome for attempt in job.attempts] == last
        assert job.state is JobState.COMPLETED
        assert job.results == {}
    attempts = {job.id: len(job.attempts) for job in jobs}
    assert trace.of("start") == {id: list(range(1, n + 1)) for id, n in attempts.items()}
    assert trace.of("end") == {id: [n] for id, n in attempts.items()}


def test_a_killed_worker_that_comes_back_goes_on_with_its_jobs(stack: Stack, trace: Trace) -> None:
    stack.up(slots=3)
    experiment = stack.submit(trace.folder, trace.script(), JOBS)
    begun = trace.until("start", 3)
    for line in begun:
        _until_running(stack, line.job)
    session = _session_of(stack, "local")
    stack.kill("worker")
    stack.up(slots=3)
    assert all(lives(line.pid) for line in begun)
    for line in begun:
        answer = _sync(stack, session.id, _late(line))
        assert answer.json()["type"] == "urn:xmcloud:problem:lease-lost"
    trace.open()
    jobs = stack.ended(experiment)
    _assert_each_ran_to_its_end_once(trace, jobs, ())


def test_another_worker_runs_the_jobs_of_a_killed_one_when_its_lease_is_over(
    stack: Stack, trace: Trace
) -> None:
    lease = 8.0
    stack.up(lease=lease)
    stack.stop_parts("worker")
    killed = stack.worker("ant")
    experiment = stack.submit(trace.folder, trace.script(), JOBS)
    lost = trace.until("start", 2)
    stack.up(lease=lease, slots=JOBS)
    trace.until("start", JOBS)
    killed.kill()
    killed.wait()
    killed_at = datetime.now(UTC)
    session = _session_of(stack, "ant")
    assert session.expires_at <= killed_at + timedelta(seconds=lease)

    again = trace.until("start", JOBS + 2)[JOBS:]
    assert {(line.job, line.attempt) for line in again} == {(line.job, 2) for line in lost}
    for line in lost:
        first = stack.client.job(line.job).attempts[0]
        assert first.outcome is Outcome.LOST
        assert first.finished_at is not None
        assert first.finished_at >= session.expires_at
        assert first.reason is not None
        assert first.reason.message == "worker ant lost: its lease ran out"
    _assert_late_writes_change_nothing(stack, lost, session, _session_of(stack, "local").id)

    # Its processes are its own to clean up: they end when it comes back under its name.
    assert all(lives(line.pid) for line in lost)
    stack.worker("ant")
    until(lambda: not any(lives(line.pid) for line in lost), "its leftovers are gone")
    trace.open()
    jobs = stack.ended(experiment)
    _assert_each_ran_to_its_end_once(trace, jobs, {line.job for line in lost})


def test_jobs_go_on_while_the_control_plane_is_killed_and_started_again(
    embedded: Stack, trace: Trace
) -> None:
    embedded.up()
    experiment = embedded.submit(trace.folder, trace.script(between="seq 1 200000"), 4)
    trace.until("start", 2)
    embedded.kill("control-plane")
    trace.open()
    trace.until("end", 2)

    embedded.up()
    jobs = embedded.ended(experiment)
    assert [len(job.attempts) for job in jobs] == [1] * 4
    assert trace.of("end") == trace.of("start") == {job.id: [1] for job in jobs}
    assert all(embedded.whole_log(job) == LINES for job in jobs)


def test_a_control_plane_that_was_away_for_longer_than_the_lease_loses_nobody(
    stack: Stack, trace: Trace
) -> None:
    lease = 6.0
    stack.up(lease=lease)
    first = stack.submit(trace.folder, trace.script("first", "seq 1 200000"))
    second = stack.submit(trace.folder, trace.script("second"))
    third = stack.submit(trace.folder, trace.script("second"))
    trace.until("start", 2)
    worker, session = stack.process("worker"), _session_of(stack, "local")
    stack.kill("control-plane")
    over = datetime.now(UTC) + timedelta(seconds=lease)
    trace.open("first")
    trace.until("end", 1)
    until(lambda: datetime.now(UTC) > over, "the lease is over")

    stack.up(lease=lease)
    (job,) = stack.ended(first)
    assert job.state is JobState.COMPLETED
    assert stack.whole_log(job) == LINES
    assert worker == stack.process("worker")
    assert _session_of(stack, "local").id == session.id
    trace.until("start", 3)
    trace.open("second")
    jobs = [job, *stack.ended(second), *stack.ended(third)]
    assert [[a.outcome for a in job.attempts] for job in jobs] == [[Outcome.COMPLETED]] * 3
    assert trace.of("end") == trace.of("start") == {job.id: [1] for job in jobs}
    assert worker.status() != psutil.STATUS_ZOMBIE


def test_two_workers_at_once_share_the_jobs(embedded: Stack, trace: Trace) -> None:
    trace.open()
    embedded.up()
    embedded.worker("other")
    experiment = embedded.submit(trace.folder, trace.script(), 40)
    jobs = embedded.ended(experiment)
    assert [[a.outcome for a in job.attempts] for job in jobs] == [[Outcome.COMPLETED]] * 40
    assert trace.of("end") == trace.of("start") == {job.id: [1] for job in jobs}


def test_a_pull_whose_worker_is_gone_swallows_no_message(embedded: Stack, trace: Trace) -> None:
    embedded.up()
    place = address(embedded.environment)
    session = OpenSession(pool="away")
    pull = Pull(subscriptions=(SubscriptionRef(topic="queue-default", audience="away"),))
    headers = {**place.credentials.headers(), "content-type": "application/json"}
    with httpx.Client(base_url=f"{place.url}/v1", headers=headers, trust_env=False) as http:
        opened = http.post("/workers/gone/sessions", content=session.model_dump_json())
        assert opened.status_code == 201
        waiting = pull.evolve(wait_seconds=300).model_dump_json()
        with pytest.raises(httpx.ReadTimeout):
            http.post("/messages/pull", content=waiting, timeout=httpx.Timeout(10, read=0.5))
        embedded.submit(trace.folder, "true", pool="away")
        # Less than the time after which a message comes again that was given to nobody.
        waiting = pull.evolve(wait_seconds=5).model_dump_json()
        answer = http.post("/messages/pull", content=waiting, timeout=60)
    assert len(Pulled.model_validate_json(answer.content).deliveries) == 1
