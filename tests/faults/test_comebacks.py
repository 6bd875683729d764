"""Workers, keepers and control planes that are killed while jobs run, and come back."""

import hashlib
import socket
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.e2e.stack import Trace, lives, until
from tests.faults.counting import assert_counted, counting, outcomes, until_counted
from tests.faults.site import LONG, Site
from tests.support.wheels import serving
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.names import random_id
from xmcloud.core.protocol import Stop
from xmcloud.core.specs import Limits, PythonSource
from xmcloud.core.worker_protocol import HOLDS_LIMIT
from xmcloud.worker import family
from xmcloud.worker.identity import mark

FAULTS = ["suspended", "killed"]


def away(site: Site, fault: str) -> None:
    """The control plane does not answer, or is not there."""
    if fault == "suspended":
        site.suspend_control()
    else:
        site.kill_control()


def back(site: Site, fault: str) -> None:
    if fault == "suspended":
        site.resume_control()
    else:
        site.start_control()


@pytest.fixture
def trace(site: Site) -> Trace:
    return Trace(site.jobs)


def assert_one_attempt(site: Site, job: Job, trace: Trace) -> None:
    """It ran once and its whole log was told."""
    assert outcomes(job) == [Outcome.COMPLETED]
    assert trace.of("start")[job.id] == trace.of("end")[job.id] == [1]
    assert_counted(site.output(job))


def test_a_job_goes_on_while_its_worker_is_killed_and_comes_back(site: Site, trace: Trace) -> None:
    results = """echo '{"answer": 42}' > "$XMCLOUD_RESULTS"; echo end"""
    job = site.submit(counting(between=results))
    failing = site.submit(trace.script(between="exit 7"))
    worker = site.worker()
    pids = [line.pid for line in trace.until("start", 2)]
    until_counted(site, job)
    session = site.client.worker("ant").session

    worker.restart()
    until_counted(site, job)
    assert all(lives(pid) for pid in pids)
    assert site.client.worker("ant").session.id != session.id
    trace.open()
    job, failing = site.ended(job), site.ended(failing)
    assert_one_attempt(site, job, trace)
    assert job.results == {"answer": 42}
    assert outcomes(failing) == [Outcome.FAILED]
    assert failing.reason is not None
    assert failing.reason.exit_code == 7
    assert trace.of("start")[failing.id] == [1]


def test_a_job_that_ended_without_a_worker_is_told_of_by_the_next(site: Site, trace: Trace) -> None:
    job = site.submit(counting(between='echo "{\\"a\\": 1}" > "$XMCLOUD_RESULTS"; echo end'))
    failing = site.submit(trace.script(between="exit 7"))
    worker = site.worker()
    pids = [line.pid for line in trace.until("start", 2)]
    site.until(failing, JobState.RUNNING)
    until_counted(site, job)
    worker.kill()
    trace.open()
    until(lambda: not any(lives(pid) for pid in pids), "the jobs end")
    worker.start()
    job, failing = site.ended(job), site.ended(failing)
    assert_one_attempt(site, job, trace)
    assert job.results == {"a": 1}
    assert failing.reason is not None
    assert failing.reason.exit_code == 7
    assert outcomes(failing) == [Outcome.FAILED]


def test_a_worker_that_is_killed_again_and_again_loses_nothing(site: Site, trace: Trace) -> None:
    job = site.submit(counting())
    worker = site.worker()
    (line,) = trace.until("start", 1)
    for _ in range(2):
        until_counted(site, job)
        worker.restart()
    # Once more, before it can have come back.
    worker.restart()
    until_counted(site, job)
    assert lives(line.pid)
    trace.open()
    assert_one_attempt(site, site.ended(job), trace)


def test_what_a_job_is_stopped_by_reaches_it_after_its_worker_came_back(
    site: Site, trace: Trace
) -> None:
    forgotten = site.submit(trace.script("never"))
    job = site.submit(f"exec 2> /dev/null; trap 'echo told; exit 0' TERM; {counting()}")
    overtime = site.submit(trace.script(), limits=Limits(runtime_seconds=2.0))
    worker = site.worker(slots=3)
    started = trace.until("start", 3)
    for each in (overtime, forgotten):
        site.until(each, JobState.RUNNING)
    until_counted(site, job)
    worker.kill()
    site.client.stop_job(forgotten.id, Stop())
    worker.start()
    until_counted(site, job)
    assert outcomes(site.ended(forgotten)) == [Outcome.STOPPED]
    overtime = site.ended(overtime)
    assert overtime.reason is not None
    assert overtime.reason.code is ReasonCode.TIMED_OUT
    site.client.stop_job(job.id, Stop())
    job = site.ended(job)
    assert outcomes(job) == [Outcome.STOPPED]
    assert_counted(site.output(job), b"told\n")
    assert not any(lives(line.pid) for line in started)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_that_is_killed_before_it_could_tell_the_end(
    site: Site, trace: Trace, fault: str
) -> None:
    job = site.submit(counting(between='echo "{\\"a\\": 1}" > "$XMCLOUD_RESULTS"; echo end'))
    worker = site.worker()
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    away(site, fault)
    trace.open()
    until((worker.folder / "attempts" / f"{job.id}-1" / "ending.json").exists, "the end is known")
    assert not lives(line.pid)
    worker.restart()
    back(site, fault)
    job = site.ended(job)
    assert_one_attempt(site, job, trace)
    assert job.results == {"a": 1}
    until(lambda: not worker.attempts(), "the worker that came back has nothing to tell")


@pytest.mark.slow
def test_a_worker_that_leaves_while_nobody_answers_tells_everything_when_it_is_back(
    site: Site, trace: Trace
) -> None:
    over = site.submit(counting(between='echo "{\\"a\\": 1}" > "$XMCLOUD_RESULTS"; echo end'))
    running = site.submit(counting("later"))
    worker = site.worker()
    pids = [line.pid for line in trace.until("start", 2)]
    for job in (over, running):
        until_counted(site, job)
    site.suspend_control()
    trace.open()
    until((worker.folder / "attempts" / f"{over.id}-1" / "ending.json").exists, "the end is known")
    worker.leave()
    assert "left without telling" in worker.said()
    assert not any(map(lives, pids))
    site.kill_control()
    site.start_control()
    assert site.client.job(over.id).state is JobState.RUNNING

    worker.start()
    over = site.ended(over)
    assert outcomes(over) == [Outcome.COMPLETED]
    assert over.results == {"a": 1}
    assert_counted(site.output(over))
    trace.open("later")
    running = site.ended(running)
    assert outcomes(running) == [Outcome.RELEASED, Outcome.COMPLETED]
    assert_counted(site.output(running))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_control_plane_that_is_away_while_jobs_run(site: Site, trace: Trace, fault: str) -> None:
    job = site.submit(counting())
    site.worker()
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    away(site, fault)
    attempt = site.home.path / "workers" / "ant" / "attempts" / f"{job.id}-1" / "output.log"
    size = attempt.stat().st_size
    until(lambda: attempt.stat().st_size > size + 100, "the job goes on writing")
    back(site, fault)
    until_counted(site, job)
    assert lives(line.pid)
    trace.open()
    assert_one_attempt(site, site.ended(job), trace)


def test_a_worker_that_is_killed_while_it_sets_a_job_up_begins_again(
    site: Site, tmp_path: Path
) -> None:
    printing = ("python", "-c", "import needed; print(needed.VERSION)")
    with socket.create_server(("127.0.0.1", 0)) as silent, serving(tmp_path / "index") as index:
        index.add("needed")
        silent.settimeout(LONG)
        uv = str(tmp_path / "uv")
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        worker = site.worker(UV_DEFAULT_INDEX=url, UV_CACHE_DIR=uv, UV_NO_CONFIG="1")
        (job,) = site.submit_all([packed(site, printing, "needed")])
        connection, _ = silent.accept()
        with connection:
            installers = family.carriers([mark(job.id, 1)])
            assert installers != []
            worker.kill()
            worker.start(UV_DEFAULT_INDEX=index.url)
            job = site.ended(job)
    assert not any(lives(installer.pid) for installer in installers)
    assert outcomes(job) == [Outcome.LOST, Outcome.COMPLETED]
    assert site.output(job).splitlines()[-1] == b"1.0"


def packed(site: Site, entrypoint: tuple[str, ...], requirements: str) -> PythonSource:
    """An archive without files."""
    with BytesIO() as file:
        tarfile.open(fileobj=file, mode="w").close()
        data = file.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    site.client.put_blob(digest, data)
    return PythonSource(archive=digest, entrypoint=entrypoint, requirements=requirements)


def test_jobs_whose_keeper_is_killed_end_and_run_again(site: Site, trace: Trace) -> None:
    job = site.submit(counting())
    worker = site.worker()
    (first,) = trace.until("start", 1)
    until_counted(site, job)
    worker.kill_keeper()
    second = trace.until("start", 2)[1]
    assert not lives(first.pid)
    assert second.attempt == 2
    trace.open()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.RELEASED, Outcome.COMPLETED]
    assert trace.of("end") == {job.id: [2]}
    assert_counted(site.output(job))


def test_jobs_whose_worker_and_keeper_are_killed_end_and_run_again(
    site: Site, trace: Trace
) -> None:
    job = site.submit(counting())
    worker = site.worker()
    (first,) = trace.until("start", 1)
    until_counted(site, job)
    worker.kill()
    worker.kill_keeper()
    assert lives(first.pid)
    worker.start()
    second = trace.until("start", 2)[1]
    assert not lives(first.pid)
    assert second.attempt == 2
    trace.open()
    job = site.ended(job)
    assert job.attempts[0].outcome in {Outcome.LOST, Outcome.RELEASED}
    assert outcomes(job)[1:] == [Outcome.COMPLETED]
    assert trace.of("end") == {job.id: [2]}
    assert_counted(site.output(job))


def test_more_attempts_than_a_session_can_hold_are_no_obstacle(site: Site, trace: Trace) -> None:
    folder = site.home.path / "workers" / "ant" / "attempts"
    for _ in range(HOLDS_LIMIT + 1):
        (left := folder / f"{random_id()}-1").mkdir(parents=True)
        (left / "exit.json").write_text('{"pid": 2, "code": 0, "at": 0}')
    trace.open()
    job = site.submit(counting())
    worker = site.worker()
    assert_one_attempt(site, site.ended(job), trace)
    until(lambda: not worker.attempts(), "what nobody knows of is removed")
