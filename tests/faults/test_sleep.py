"""Processes that stand still for longer than the lease, as those of a machine that sleeps do."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.stack import Trace, lives, suspend, until
from tests.faults.counting import assert_counted, counting, outcomes, until_counted
from tests.faults.site import LONG, Site
from xmcloud.core.models import Outcome
from xmcloud.core.worker_protocol import OpenSession

LEASE = 3.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """With a lease that is soon over."""
    site = Site(tmp_path, LEASE)
    try:
        site.start_control()
        yield site
    finally:
        site.close()


@pytest.mark.parametrize("sleeps", [("control",), ("worker",), ("control", "worker")])
def test_what_sleeps_for_longer_than_the_lease_goes_on_afterwards(
    site: Site, sleeps: tuple[str, ...]
) -> None:
    trace = Trace(site.jobs)
    worker = site.worker()
    job = site.submit(counting())
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    found = {"control": site.control.pid, "worker": worker.process.pid}
    asleep = [psutil.Process(found[each]) for each in sleeps]
    for process in asleep:
        suspend(process)
    expires = time.monotonic() + LEASE
    until(lambda: time.monotonic() > expires, "the lease is over")
    for process in asleep:
        process.resume()
    until_counted(site, job)
    assert lives(line.pid)
    trace.open()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.COMPLETED]
    assert trace.of("start") == trace.of("end") == {job.id: [1]}
    assert_counted(site.output(job))


def test_a_session_that_an_earlier_run_was_given_too_late_drives_no_worker_away(
    site: Site,
) -> None:
    trace = Trace(site.jobs)
    worker = site.worker()
    job = site.submit(counting())
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    late = OpenSession(queues=("default",), host=socket.gethostname())
    headers = {"authorization": f"Bearer {site.token}", "content-type": "application/json"}
    url = f"http://127.0.0.1:{site.port}/v1/workers/ant/sessions"
    answer = httpx.post(url, content=late.model_dump_json(), headers=headers, trust_env=False)
    assert answer.status_code == 201
    until_counted(site, job)
    assert worker.process.poll() is None
    assert lives(line.pid)
    trace.open()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.COMPLETED]
    assert_counted(site.output(job))


def test_a_worker_of_the_same_name_and_another_home_drives_the_older_one_away(site: Site) -> None:
    older = site.worker()
    until(older.is_up, "it is there")
    home = site.folder / "other"
    newer = site.worker(XMCLOUD_HOME=str(home), XMCLOUD_TOKEN=site.token)
    assert older.process.wait(LONG) == 1
    assert "Another worker named 'ant' was started" in older.said()
    assert newer.process.poll() is None


def test_an_attempt_that_came_too_late_leaves_the_checkpoint_to_the_next(site: Site) -> None:
    trace = Trace(site.jobs)
    gate = "go$XMCLOUD_ATTEMPT"
    writing = 'echo kept > "$XMCLOUD_CHECKPOINT/state"; '
    reading = 'cat "$XMCLOUD_CHECKPOINT/state"'
    filled = site.submit(writing + counting(gate, reading))
    empty = site.submit(counting(gate, 'test -d "$XMCLOUD_CHECKPOINT" && echo kept'))
    ant = site.worker()
    first = [line.pid for line in trace.until("start", 2)]
    for job in (filled, empty):
        until_counted(site, job)
    suspend(psutil.Process(ant.process.pid))
    site.worker("bee")
    trace.until("start", 4)
    trace.open("go1")
    until(lambda: not any(map(lives, first)), "the first attempts end")
    psutil.Process(ant.process.pid).resume()
    until(lambda: not ant.attempts(), "the worker that was late gives them up")
    trace.open("go2")
    for job in map(site.ended, (filled, empty)):
        assert outcomes(job) == [Outcome.LOST, Outcome.COMPLETED]
        assert_counted(site.output(job), b"kept\n")
