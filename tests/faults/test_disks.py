"""The disk of a worker that is full for a while, with jobs running."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.stack import Trace, lives, until
from tests.faults.counting import counting, outcomes, until_counted
from tests.faults.site import Site, Worker
from xmcloud.core.models import JobState, Outcome
from xmcloud.core.specs import Command

PAGES = b"%015d\n"
"""Lines of which a page of memory holds a whole number: none is written in part."""

STUBBORN = """
import os, pathlib, time
def say(n):
    while True:
        try:
            return os.write(1, b"%015d\\n" % n)
        except OSError:
            pathlib.Path("full").touch()
            time.sleep(0.02)
for n in range(1, 11):
    say(n)
pathlib.Path("pid").write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.02)
for n in range(11, 2001):
    say(n)
"""
"""Writes each line as often as it takes."""


class FullableDisk:
    """A small one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling = path / "filling"

    def fill(self) -> None:
        with suppress(OSError), self._filling.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass

    def free(self) -> None:
        self._filling.unlink()


@pytest.fixture
def disk(small_disk: Path) -> FullableDisk:
    return FullableDisk(small_disk)


@pytest.fixture
def worker(disk: FullableDisk, site: Site) -> Worker:
    """Its own folder is on that disk, and it takes jobs however little room there is."""
    home = disk.path / "home"
    home.mkdir()
    (home / "worker.json").write_text('{"disk_floor_bytes": 0}')
    return site.worker(XMCLOUD_HOME=str(home), XMCLOUD_TOKEN=site.token)


def test_a_job_goes_on_when_there_is_room_again_for_its_output(
    disk: FullableDisk, site: Site, worker: Worker
) -> None:
    argv = (sys.executable, "-c", STUBBORN)
    (job,) = site.submit_all([Command(command=argv, directory=str(site.jobs))])
    site.until(job, JobState.RUNNING)
    until_counted(site, job, 0)
    until((site.jobs / "pid").exists, "it runs")
    disk.fill()
    (site.jobs / "go").touch()
    until((site.jobs / "full").exists, "it notices")
    worker.restart()
    until(worker.is_up, "a worker starts on a full disk")
    disk.free()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.COMPLETED]
    assert site.output(job) == b"".join(PAGES % number for number in range(1, 2001))


def test_an_end_that_cannot_be_written_down_is_told_and_survives_the_worker(
    disk: FullableDisk, site: Site, worker: Worker
) -> None:
    trace = Trace(site.jobs)
    job = site.submit(counting(between="exit 7"))
    (line,) = trace.until("start", 1)
    until_counted(site, job)
    site.suspend_control()
    disk.fill()
    trace.open()
    until(lambda: not lives(line.pid), "it ends")
    until(lambda: "kept in memory alone" in worker.said(), "that cannot be kept")
    worker.restart()
    disk.free()
    site.resume_control()
    job = site.ended(job)
    assert outcomes(job) == [Outcome.FAILED]
    assert job.reason is not None
    assert job.reason.exit_code == 7
