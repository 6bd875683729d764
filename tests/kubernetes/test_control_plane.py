"""Jobs that people add for the target `kubernetes`, from the queue to the cluster and back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.kubernetes.cluster import JOBS, Nodes
from tests.kubernetes.kubelet import Kubelet
from tests.support.clock import ManualClock
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Jobs, NewUnit, NewUnits

pytestmark = pytest.mark.anyio

SECONDS = 30


@dataclass
class Plane:
    api: Api
    nodes: Nodes
    kubelet: Kubelet
    clock: ManualClock

    async def add(self, *commands: str) -> list[Job]:
        """A unit of these shell commands, submitted."""
        jobs = [
            new_job(
                f"job-{number}",
                executable={"kind": "image", "image": "i", "command": ["/bin/sh", "-c", command]},
                pool="kubernetes",
                platform={"kind": "kubernetes"},
            )
            for number, command in enumerate(commands)
        ]
        path = f"/experiments/{(await self.api.experiment()).id}/units"
        body = NewUnits(units=(NewUnit(jobs=tuple(jobs)),))
        made = (await self.api.post(Jobs, path, body, 201)).jobs
        await sweep(self.api.plane)
        return made

    async def when(self, jobs: list[Job], *states: JobState) -> list[Job]:
        """As the sweep finds them, once they are in these states."""
        async with asyncio.timeout(SECONDS):
            while True:
                self.clock.advance(timedelta(seconds=1))
                await sweep(self.api.plane)
                found = [await self.api.get(Job, f"/jobs/{job.id}") for job in jobs]
                if tuple(job.state for job in found) == states:
                    return found


@pytest.fixture
async def plane(
    platform: KubernetesPlatform, nodes: Nodes, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Plane]:
    kubelet = Kubelet(nodes, tmp_path)
    working = asyncio.create_task(kubelet.work())
    signals = HeardSignals()
    targets = {"kubernetes": Target(platform)}
    made = replace(sqlite_plane(tmp_path, clock, signals), targets=targets)
    async with opened_api(made, clock, signals, tmp_path) as api:
        yield Plane(api, nodes, kubelet, clock)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_job_and_one_that_fails(plane: Plane) -> None:
    good = await plane.add("echo good")
    bad = await plane.add("echo bad && exit 3")
    (done,) = await plane.when(good, JobState.COMPLETED)
    (failed,) = await plane.when(bad, JobState.FAILED)
    assert done.attempts[0].remote is not None
    assert failed.reason.exit_code == 3


async def test_the_jobs_of_a_group_find_each_other(plane: Plane) -> None:
    there = 'case "$XMCLOUD_PEERS" in *job-1*) exit 0;; esac; exit 1'
    unit = await plane.add(there, there)
    first, second = await plane.when(unit, JobState.COMPLETED, JobState.COMPLETED)
    assert first.attempts[0].remote == second.attempts[0].remote


async def test_one_that_fails_ends_the_group(plane: Plane) -> None:
    unit = await plane.add("exit 1", "sleep 1000")
    await plane.when(unit, JobState.FAILED, JobState.FAILED)


async def test_a_preempted_job_runs_again(plane: Plane) -> None:
    added = await plane.add("test $XMCLOUD_ATTEMPT = 2 || sleep 1000")
    (job,) = await plane.when(added, JobState.RUNNING)
    (name,) = plane.nodes.all(JOBS)
    plane.kubelet.take_machine(name)
    (job,) = await plane.when([job], JobState.COMPLETED)
    assert (len(job.attempts), job.losses, job.failures) == (2, 1, 0)


async def test_a_stop_reaches_the_cluster(plane: Plane) -> None:
    (job,) = await plane.when(await plane.add("sleep 1000"), JobState.RUNNING)
    await plane.api.post(Job, f"/jobs/{job.id}/stop", {"by": "ada"})
    await plane.when([job], JobState.STOPPED)
    assert "activeDeadlineSeconds" in next(iter(plane.nodes.all(JOBS).values()))["spec"]
