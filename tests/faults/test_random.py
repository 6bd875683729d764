"""Many short jobs while workers, keepers and the control plane are killed at random."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.e2e.stack import until
from tests.faults.counting import outcomes
from tests.faults.site import Site, Worker
from xmcloud.core.models import Job, Outcome
from xmcloud.core.specs import Command, Limits

JOBS = 500
WORKERS = ("ant", "bee", "cat", "dog")
SLOTS = 8
FAULTS = 24
LINES = 20
RETRIES = Limits(infrastructure_retries=20, grace_seconds=5)
DEADLINE = 120.0
Fault = Callable[[], None]

AGAIN = {Outcome.LOST, Outcome.RELEASED}

SCRIPT = f"""
trace=traces/$XMCLOUD_JOB_ID
echo "start $XMCLOUD_ATTEMPT" >> $trace
n=0
while [ $n -lt {LINES} ]; do
  n=$((n+1))
  echo "attempt $XMCLOUD_ATTEMPT line $n"
  [ $((n % 10)) -eq 0 ] && sleep 0.3
done
echo "{{\\"attempt\\": $XMCLOUD_ATTEMPT}}" > "$XMCLOUD_RESULTS"
echo "end $XMCLOUD_ATTEMPT" >> $trace
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Whose leases are renewed in good time, and run out while the test runs."""
    site = Site(tmp_path, lease=20.0)
    try:
        site.start_control()
        yield site
    finally:
        site.close()


class Faults:
    """One after the other, each when some jobs more are over."""

    def __init__(self, site: Site, workers: list[Worker], seed: int) -> None:
        self._site, self._workers, self._random = site, workers, Random(seed)

    def sequence(self) -> list[Fault]:
        """Some of every kind, in an order of the seed's."""
        picked = [self._workers[number % len(self._workers)] for number in range(FAULTS)]
        kinds: list[Callable[[Worker], None]] = [
            self._kill,
            self._kill,
            self._leave,
            self._kill_keeper,
            self._kill_control,
            self._kill_both,
        ]
        self._random.shuffle(picked)
        found: list[Fault] = [
            partial(kinds[n % len(kinds)], worker) for n, worker in enumerate(picked)
        ]
        self._random.shuffle(found)
        return found

    def _kill(self, worker: Worker) -> None:
        worker.restart()

    def _leave(self, worker: Worker) -> None:
        until(worker.is_up, f"{worker.name} obeys signals")
        worker.leave()
        worker.start()

    def _kill_keeper(self, worker: Worker) -> None:
        for keeper in worker.keepers():
            keeper.kill()

    def _kill_both(self, worker: Worker) -> None:
        worker.kill()
        self._kill_keeper(worker)
        worker.start()

    def _kill_control(self, _: Worker) -> None:
        self._site.kill_control()
        self._site.start_control()


def played(site: Site, jobs: list[Job], faults: list[Fault]) -> list[Job]:
    """All jobs, when they are over; a fault each time that a share of them is."""
    experiment, step = jobs[0].experiment_id, JOBS // (FAULTS + 2)
    cursor, found = None, {job.id: job for job in jobs}
    deadline = time.monotonic() + DEADLINE
    while not all(job.state.terminal for job in found.values()):
        assert time.monotonic() < deadline, unfinished(found.values())
        changes = site.client.changes(experiment, cursor, 1)
        cursor = changes.cursor
        found |= {job.id: job for job in changes.jobs}
        over = sum(job.state.terminal for job in found.values())
        if faults and over >= step * (FAULTS - len(faults) + 1):
            faults.pop(0)()
    return list(found.values())


def unfinished(jobs: Iterable[Job]) -> str:
    waiting = [job for job in jobs if not job.state.terminal]
    return f"{len(waiting)} are not over, such as {waiting[:3]}"


def assert_ran(site: Site, job: Job) -> int:
    """To one end that counts, whose log is whole; how often its process came to the end."""
    *earlier, last = outcomes(job)
    assert last is Outcome.COMPLETED, job
    assert set(earlier) <= AGAIN, job
    assert job.results == {"attempt": job.fence}
    trace = (site.jobs / "traces" / job.id).read_text()
    told = [(what, int(attempt)) for what, attempt in map(str.split, trace.splitlines())]
    # Each attempt began once at most, and nothing of it was left when the next one began.
    assert told == sorted(set(told), key=lambda line: (line[1], line[0] == "end")), job
    assert told[-2:] == [("start", job.fence), ("end", job.fence)]
    lines = [f"attempt {job.fence} line {number}\n" for number in range(1, LINES + 1)]
    assert site.output(job).decode() == "".join(lines)
    return [what for what, _ in told].count("end")


@pytest.mark.slow
def test_each_job_counts_once_whatever_is_killed(site: Site) -> None:
    (site.jobs / "traces").mkdir()
    workers = [site.worker(name, slots=SLOTS) for name in WORKERS]
    for worker in workers:
        until(worker.is_up, f"{worker.name} is there")
    command = Command(command=("sh", "-c", SCRIPT), directory=str(site.jobs))
    faults = Faults(site, workers, seed=1).sequence()
    jobs = site.submit_all([command] * JOBS, limits=RETRIES)
    jobs = played(site, jobs, faults)
    assert faults == []
    assert len(jobs) == JOBS
    ends = sum(assert_ran(site, job) for job in jobs)
    # Once more, at most, what was being told of when a keeper was killed with its worker.
    assert JOBS <= ends <= JOBS + SLOTS * FAULTS // 3
