"""Worker processes that are killed, and a control plane that is."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.protocol import Jobs, LogSlice, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec
from xmcloud.local.home import Home

pytestmark = pytest.mark.anyio

LONG = 30.0
"""Seconds; ends a test that would fail, delays none that passes."""


class Machine:
    """A control plane and workers as processes, and a client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.prepare()
        self.port = free_port()
        self.children: list[subprocess.Popen[bytes]] = []
        token = (self.home.path / "token").read_text()
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}/v1",
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            trust_env=False,
        )

    def start(self, module: str, *arguments: str) -> "subprocess.Popen[bytes]":
        variables = {
            "XMCLOUD_HOME": str(self.home.path),
            "XMCLOUD_CACHE": str(self.folder / "cache"),
            "XMCLOUD_PROFILE": "embedded",
        }
        with (self.folder / "stderr").open("ab") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, **variables},
                stderr=stderr,
            )
        self.children.append(child)
        return child

    async def control_plane(self) -> "subprocess.Popen[bytes]":
        self.home.withdraw()
        arguments = (f"--home={self.home.path}", f"--port={self.port}")
        child = self.start("xmcloud.local.serve", *arguments)
        async with asyncio.timeout(LONG):
            while True:
                assert child.poll() is None, self.errors()
                if self.home.control() is not None:
                    return child
                await asyncio.sleep(0.02)

    def worker(self, name: str = "ant") -> "subprocess.Popen[bytes]":
        return self.start("xmcloud.worker", f"--name={name}")

    async def launch(self, script: str) -> Job:
        answer = await self.http.post("/experiments", json={"title": "test"})
        experiment = answer.raise_for_status().json()["id"]
        command = Command(command=("sh", "-c", script), directory=str(self.folder))
        job = NewJob(name="job", spec=JobSpec(executable=command))
        body = NewUnits(units=(NewUnit(jobs=(job,)),)).model_dump_json()
        answer = await self.http.post(f"/experiments/{experiment}/units", content=body)
        return Jobs.model_validate_json(answer.raise_for_status().content).jobs[0]

    async def until(self, job: Job, state: JobState, fence: int = 1) -> Job:
        async with asyncio.timeout(LONG):
            while True:
                answer = await self.http.get(f"/jobs/{job.id}")
                job = Job.model_validate_json(answer.raise_for_status().content)
                if job.state is state and job.fence >= fence:
                    return job
                await asyncio.sleep(0.02)

    async def log(self, job: Job) -> bytes:
        answer = await self.http.get(f"/jobs/{job.id}/log")
        return LogSlice.model_validate_json(answer.raise_for_status().content).data

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    async def close(self) -> None:
        await self.http.aclose()
        for child in reversed(self.children):
            child.terminate()
            child.wait(LONG)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


@pytest.fixture
async def machine(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Machine]:
    async with AsyncExitStack() as stack:
        machine = Machine(tmp_path)
        stack.push_async_callback(machine.close)
        await machine.control_plane()
        yield machine


async def pid_in(path: Path) -> int:
    async with asyncio.timeout(LONG):
        while True:
            if (pid := read_pid(path)) is not None:
                return pid
            await asyncio.sleep(0.02)


def read_pid(path: Path) -> int | None:
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else None


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_killed_worker_that_starts_again_goes_on_with_its_job(machine: Machine) -> None:
    job = await machine.launch("echo $$ > pid; exec sleep 1000")
    worker = machine.worker()
    process = await pid_in(machine.folder / "pid")
    job = await machine.until(job, JobState.RUNNING)
    worker.kill()
    worker.wait()
    machine.worker()
    await machine.http.post(f"/jobs/{job.id}/stop", json={})
    job = await machine.until(job, JobState.STOPPED)
    assert not alive(process)
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.STOPPED]


async def test_a_name_is_for_one_worker_at_a_time(machine: Machine) -> None:
    job = await machine.launch("echo one")
    machine.worker()
    await machine.until(job, JobState.COMPLETED)
    other = machine.worker()
    assert other.wait(LONG) == 1
    assert "A worker named 'ant' runs on this machine already" in machine.errors()
    assert "Traceback" not in machine.errors()


async def test_a_control_plane_that_starts_again_finds_its_job_running(machine: Machine) -> None:
    script = "echo begin; until test -e go; do sleep 0.02; done; echo end; touch done"
    job = await machine.launch(script)
    machine.worker()
    job = await machine.until(job, JobState.RUNNING)
    machine.children[0].kill()
    machine.children[0].wait()
    (machine.folder / "go").touch()
    async with asyncio.timeout(LONG):
        while True:
            if (machine.folder / "done").exists():
                break
            await asyncio.sleep(0.02)
    await machine.control_plane()
    job = await machine.until(job, JobState.COMPLETED)
    assert len(job.attempts) == 1
    assert await machine.log(job) == b"begin\nend\n"


async def test_a_worker_that_is_asked_to_leave_gives_its_job_back_and_leaves_no_process(
    machine: Machine,
) -> None:
    job = await machine.launch("echo $$ > pid; exec sleep 1000")
    worker = machine.worker()
    process = await pid_in(machine.folder / "pid")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LONG) == 0
    assert not alive(process)
    job = await machine.until(job, JobState.QUEUED)
    assert job.attempts[0].outcome is Outcome.RELEASED
