"""Workers on machines of their own, and the cable between them and the control plane."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.stack import Trace, lives, until
from tests.faults.counting import assert_counted, counting, outcomes, until_counted
from tests.faults.network import Cable, cable, missing_for_namespaces, relayed
from tests.faults.site import Site, Worker
from xmcloud.core.models import JobState, Outcome, ReasonCode
from xmcloud.core.protocol import Stop

LEASE = 4.0
"""Seconds; a cut that is to last for longer does."""

CUTS: list[Callable[[Cable], None]] = [Cable.unplug, Cable.swallow]


class Machines:
    """Two besides the one with the control plane."""

    def __init__(self, site: Site, cables: list[Cable], urls: list[str]) -> None:
        self.site, self.cables, self._urls = site, cables, urls

    def worker(self, number: int, name: str, queues: str) -> Worker:
        """On that machine."""
        prefix, url = self.cables[number].prefix, self._urls[number]
        return self.site.worker(name, queues, slots=4, prefix=prefix, XMCLOUD_URL=url)


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """Skips where there cannot be any, unless services are required."""
    if missing := missing_for_namespaces():
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """With the lease that the test is given."""
    with ExitStack() as stack:
        cables = [stack.enter_context(cable(number)) for number in (0, 1)]
        site = Site(tmp_path, lease=request.param)
        stack.callback(site.close)
        urls = [stack.enter_context(relayed(each.address, site.port)) for each in cables]
        for each in cables:
            stack.callback(each.heal)
        site.start_control()
        yield Machines(site, cables, urls)


def gone(pid: int) -> bool:
    return not lives(pid)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("machines", [60.0], indirect=True)
def test_a_cut_below_the_lease_changes_nothing(
    machines: Machines, cut: Callable[[Cable], None]
) -> None:
    site, trace = machines.site, Trace(machines.site.jobs)
    worker = machines.worker(0, "ant", "default")
    job = site.submit(counting())
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    session = site.client.worker("ant").session.id

    cut(machines.cables[0])
    log = worker.folder / "attempts" / f"{job.id}-1" / "output.log"
    size = log.stat().st_size
    until(lambda: log.stat().st_size > size + 100, "the job goes on writing")
    machines.cables[0].heal()
    until_counted(site, job)
    assert lives(line.pid)
    assert site.client.worker("ant").session.id == session
    trace.open()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.COMPLETED]
    assert trace.of("start") == trace.of("end") == {job.id: [1]}
    assert_counted(site.output(job))


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("machines", [LEASE], indirect=True)
def test_a_cut_beyond_the_lease_costs_what_others_have_taken_meanwhile(
    machines: Machines, cut: Callable[[Cable], None]
) -> None:
    """And nothing else: what nobody else may take goes on under the same attempt."""
    site, trace = machines.site, Trace(machines.site.jobs)
    ant = machines.worker(0, "ant", "default,high")
    kept = site.submit(counting(), queue="high")
    over = site.submit(counting("over"), queue="high")
    taken = site.submit(counting())
    stopped = site.submit(trace.script("never"), queue="high")
    first = {line.job: line.pid for line in trace.until("start", 4)}
    machines.worker(1, "bee", "default")
    until(lambda: site.connected("bee"), "the other worker is there")
    for job in (kept, over, taken):
        until_counted(site, job)

    cut(machines.cables[0])
    again = trace.until("start", 5)[4]
    assert (again.job, again.attempt) == (taken.id, 2)
    for job in (kept, over, stopped):
        site.until(job, JobState.QUEUED)
    site.client.stop_job(stopped.id, Stop())
    assert not site.connected("ant")
    assert all(map(lives, first.values()))
    trace.open("over")
    until(lambda: not lives(first[over.id]), "one ends meanwhile")
    machines.cables[0].heal()
    for job in (taken, stopped):
        until(partial(gone, first[job.id]), "what others run or stopped is ended")
    until_counted(site, kept)
    reason = site.client.job(kept.id).reason
    assert reason is not None
    assert reason.code is ReasonCode.RESUMED
    assert lives(first[kept.id])
    assert lives(again.pid)
    trace.open()
    kept, over, taken = site.ended(kept), site.ended(over), site.ended(taken)
    assert outcomes(kept) == outcomes(over) == [Outcome.COMPLETED]
    assert outcomes(taken) == [Outcome.LOST, Outcome.COMPLETED]
    assert [attempt.worker for attempt in taken.attempts] == ["ant", "bee"]
    assert outcomes(site.ended(stopped)) == [Outcome.LOST]
    once = {kept.id: [1], over.id: [1], stopped.id: [1]}
    assert trace.of("start") == {**once, taken.id: [1, 2]}
    assert trace.of("end") == {kept.id: [1], over.id: [1], taken.id: [2]}
    for job in (kept, over, taken):
        assert_counted(site.output(job))
    until(lambda: not ant.attempts(), "nothing is left of either")
