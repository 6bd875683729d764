"""What each job has of a real worker's machine, and when the worker takes none."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.functions.real_workers import Plane, new_job, opened_plane
from tests.functions.worker_rig import LONG, Rig, eventually, opened_rig
from tests.support.nvml import GIB, build_library, gpu
from xmcloud.core.models import Job, JobState, ReasonCode, Session, Statistics
from xmcloud.core.protocol import CauseCode, Pending, WorkerStatus
from xmcloud.core.specs import Command
from xmcloud.worker import main
from xmcloud.worker.statistics.sampler import Sampler

SHOW_AND_WAIT = 'echo "$CUDA_VISIBLE_DEVICES;"; until test -e {go}; do sleep 0.02; done'
GROW = "import time; x = bytearray(400_000_000); time.sleep(60)"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with opened_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def two_gpus(tmp_path: Path) -> dict[str, str]:
    if not shutil.which("g++"):
        how = "a C++ compiler: apt-get install g++"
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(how, pytrace=False)
        pytest.skip(how)
    folder = tmp_path / "driver"
    folder.mkdir()
    return build_library(folder, [gpu(n, "Tesla T4", 16 * GIB) for n in range(2)])


def waiting(plane: Plane, go: str, **resources: float) -> Job:
    """A job that shows the GPUs it sees and ends when the file is there."""
    script = SHOW_AND_WAIT.format(go=plane.folder / go)
    job = new_job(go, Command(command=("sh", "-c", script)), resources=resources)
    return plane.launch(job)[0]


def seen(plane: Plane, job: Job) -> str:
    plane.wrote(job, ";")
    return plane.log(job).partition(";")[0]


def test_each_job_has_gpus_of_its_own_also_after_its_worker_was_killed(
    plane: Plane, two_gpus: dict[str, str]
) -> None:
    uuids = {gpu(0).uuid, gpu(1).uuid}
    with plane.worker(environment=two_gpus, slots=4) as worker:
        first, second = waiting(plane, "first", t4=1), waiting(plane, "second", gpu=1)
        assert {seen(plane, first), seen(plane, second)} == uuids
        third, alone = waiting(plane, "third", t4=1), waiting(plane, "alone")
        assert seen(plane, alone) == ""
        assert plane.get(third).state is JobState.QUEUED
        execution = plane.until(second, JobState.RUNNING).attempts[-1].execution
        assert execution is not None
        assert [name.partition(" ")[2] for name in execution.gpus] == ["Tesla T4"]
        worker.process.kill()
        worker.ended(30)
    with plane.worker(environment=two_gpus, slots=4):
        (plane.folder / "second").touch()
        plane.over(second)
        assert seen(plane, third) == seen(plane, second)
        for go in ("first", "third", "alone"):
            (plane.folder / go).touch()
        for job in (first, third, alone):
            assert (plane.over(job).state, len(plane.get(job).attempts)) == (
                JobState.COMPLETED, 1,
            )  # fmt: skip


def test_a_worker_without_gpus_hides_those_of_the_machine(
    plane: Plane, two_gpus: dict[str, str]
) -> None:
    with plane.worker(environment={**two_gpus, "CUDA_VISIBLE_DEVICES": "0"}, gpus="none"):
        job, wants_one = waiting(plane, "job"), waiting(plane, "other", gpu=1)
        assert seen(plane, job) == ""
        cause = pending(plane, wants_one).causes[0]
        assert cause.code is CauseCode.TOO_LARGE
        (plane.folder / "job").touch()
        plane.over(job)


def pending(plane: Plane, job: Job) -> Pending:
    answer = plane.http.get(f"/jobs/{job.id}/pending").raise_for_status()
    return Pending.model_validate_json(answer.content)


async def test_a_job_beyond_its_memory_ends_and_says_how_much_it_used(rig: Rig) -> None:
    limit = {"memory": 100_000_000}
    job = await rig.launch(sys.executable, "-c", GROW, resources=limit)
    async with rig.worker():
        job = await rig.over(job)
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.OUT_OF_MEMORY)
    assert "memory" in job.reason.message


async def test_a_job_has_as_many_cores_as_it_asked_for(rig: Rig) -> None:
    program = "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    job = await rig.launch(sys.executable, "-c", program, resources={"cpu": 1})
    async with rig.worker():
        await rig.over(job)
    assert await rig.log(job) == b"1 1\n"


async def test_many_small_jobs_run_at_once(rig: Rig) -> None:
    go, here = rig.folder / "go", rig.folder / "here"
    here.mkdir()
    script = f"touch {here}/$XMCLOUD_JOB_ID; until test -e {go}; do sleep 0.1; done"
    jobs = [await rig.launch("sh", "-c", script) for _ in range(60)]
    async with rig.worker(slots=60):
        await eventually(lambda: len(list(here.iterdir())) == 60)
        go.touch()
        for job in jobs:
            assert (await rig.over(job)).state is JobState.COMPLETED


async def test_outside_its_hours_a_worker_takes_nothing_and_whoever_waits_hears_why(
    rig: Rig,
) -> None:
    # Every hour of every day but a minute that is not now.
    async with rig.worker(hours="mon 0:00-0:01" if _is_no_monday() else "tue 0:00-0:01"):
        job = await rig.launch("true")
        why = Pending(job_id=job.id, state=job.state)
        async with asyncio.timeout(LONG):
            while not why.causes or why.causes[0].code is not CauseCode.WORKERS_CLOSED:
                why = await rig.api.get(Pending, f"/jobs/{job.id}/pending")
    assert why.causes[0].message == "worker ant takes no jobs: outside its hours"
    assert (await rig.api.get(Job, f"/jobs/{job.id}")).attempts == ()


def _is_no_monday() -> bool:
    from datetime import datetime

    return datetime.now().weekday() != 0  # noqa: DTZ005 - hours are those of the machine


async def test_queues_are_shared_by_weight(rig: Rig) -> None:
    order = rig.folder / "order"
    script = f"echo $XMCLOUD_JOB_NAME >> {order}"
    jobs = []
    for name, queue in [("a", "high"), ("b", "low")] * 6:
        executable = Command(command=("sh", "-c", script))
        jobs.append(await rig.api.job(name, queue, executable=executable))
    async with rig.worker(queues=("high", "low"), order="fair", weights={"high": 2}):
        for job in jobs:
            await rig.over(job)
    assert order.read_text().split()[:9].count("a") == 6


async def test_what_machine_and_job_used_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "Sampler", partial(Sampler, interval_seconds=0.05))
    go = rig.folder / "go"
    job = await rig.launch("sh", "-c", f"until test -e {go}; do sleep 0.02; done")
    async with rig.worker():
        await rig.until(job, JobState.RUNNING)
        status = await rig.api.get(WorkerStatus, "/workers/ant")
        assert [each.id for each in status.jobs] == [job.id]
        async with asyncio.timeout(LONG):
            while status.statistics is None:
                await rig.launch("true")  # whatever a worker has to say takes it along
                status = await rig.api.get(WorkerStatus, "/workers/ant")
        go.touch()
        await rig.over(job)
    assert "memory-bytes" in status.statistics.series
    used = await rig.api.get(Statistics, f"/jobs/{job.id}/statistics")
    assert max(filter(None, used.series["memory-bytes"])) > 0


async def test_a_checkpoint_is_there_again_for_the_next_attempt_and_goes_with_the_job(
    rig: Rig,
) -> None:
    script = 'cat "$XMCLOUD_CHECKPOINT/step" || { echo 5 > "$XMCLOUD_CHECKPOINT/step"; exit 1; }'
    job = await rig.launch("sh", "-c", script, limits={"retries": 1})
    async with rig.worker():
        job = await rig.over(job)
    assert (job.state, len(job.attempts)) == (JobState.COMPLETED, 2)
    assert await rig.log(job) == b"5\n"
    assert list((rig.folder / "home" / "checkpoints").iterdir()) == []


async def test_a_worker_that_is_drained_finishes_what_runs_and_one_that_is_stopped_ends(
    rig: Rig,
) -> None:
    go = rig.folder / "go"
    running = await rig.launch("sh", "-c", f"until test -e {go}; do sleep 0.02; done")
    async with rig.worker(slots=2) as task:
        await rig.until(running, JobState.RUNNING)
        await rig.api.post(Session, "/workers/ant/drain")
        waits = await rig.launch("true")
        go.touch()
        assert (await rig.over(running)).state is JobState.COMPLETED
        assert (await rig.api.get(Job, f"/jobs/{waits.id}")).state is JobState.QUEUED
        await rig.api.post(Session, "/workers/ant/resume")
        blocked = await rig.launch("sleep", "1000")
        await rig.until(blocked, JobState.RUNNING)
        assert (await rig.over(waits)).state is JobState.COMPLETED
        await rig.api.post(Session, "/workers/ant/stop")
        async with asyncio.timeout(LONG):
            await task
    assert (await rig.api.get(Job, f"/jobs/{blocked.id}")).state is JobState.QUEUED
