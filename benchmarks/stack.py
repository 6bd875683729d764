"""A control plane and a worker as people run them, in a folder of their own."""

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xmcloud.core.models import Job
from xmcloud.core.protocol import BATCH_LIMIT, NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec
from xmcloud.local.control import LocalPlane, Wanted
from xmcloud.local.home import Home
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.places import address

SLOTS = 2


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs, and a client of it."""

    plane: LocalPlane
    client: Client
    emulators: bool

    def experiment(self, title: str) -> str:
        return self.client.create_experiment(NewExperiment(title=title)).id

    def submit(
        self, experiment: str, command: tuple[str, ...], count: int = 1, queue: str = "default"
    ) -> list[Job]:
        """Adds that many jobs, in as few requests as possible."""
        jobs: list[Job] = []
        while len(jobs) < count:
            part = min(BATCH_LIMIT, count - len(jobs))
            jobs += self.client.add_units(experiment, units(command, part, queue))
        return jobs

    def finished(self, experiment: str, count: int) -> list[Job]:
        """Waits until that many jobs of the experiment are over."""
        jobs: dict[str, Job] = {}
        cursor = None
        while sum(job.state.terminal for job in jobs.values()) < count:
            news = self.client.changes(experiment, cursor, 30)
            jobs |= {job.id: job for job in news.jobs}
            cursor = news.cursor
            time.sleep(0.1)
        return list(jobs.values())


def units(command: tuple[str, ...], count: int, queue: str | None = "default") -> NewUnits:
    spec = JobSpec(executable=Command(command=command))
    unit = NewUnit(jobs=(NewJob(name="job", spec=spec, queue=queue),))
    return NewUnits(units=(unit,) * count)


@contextmanager
def running(emulators: bool) -> Iterator[Stack]:
    """Started with `xmcloud up`'s own code; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="xmcloud-bench-") as folder:
        os.environ["XMCLOUD_HOME"] = folder
        plane = LocalPlane(Home(Path(folder)), say=lambda text: None)
        try:
            plane.up(Wanted(slots=SLOTS, emulators=emulators))
            place = address(os.environ)
            with Client(place.url, place.credentials) as client:
                yield Stack(plane, client, emulators)
        finally:
            plane.down()


def random_queue() -> str:
    return f"bench-{secrets.token_hex(4)}"
