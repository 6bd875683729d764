"""The API on a real socket and workers in processes of their own, which may be killed."""

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.functions.xm_cloud.server import HEADERS, TOKEN, serving
from tests.support.servers import Server, running
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Jobs, LogSlice, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import JobSpec

LONG = 40.0
"""Seconds; ends a test that would fail, delays none that passes."""

OVER = {JobState.COMPLETED, JobState.FAILED, JobState.STOPPED}


class Plane:
    """A control plane, its client and the folder of its workers."""

    def __init__(self, url: str, http: httpx.Client, folder: Path) -> None:
        self.url, self.http, self.folder = url, http, folder

    @contextmanager
    def worker(
        self,
        name: str = "ant",
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = ("-m", "xmcloud.worker"),
        **options: object,
    ) -> Iterator[Server]:
        variables = {
            "XMCLOUD_URL": self.url,
            "XMCLOUD_TOKEN": TOKEN,
            "XMCLOUD_HOME": str(self.folder / "workers"),
            "XMCLOUD_CACHE": str(self.folder / "cache"),
            **(environment or {}),
        }
        flags = [f"--{option}={value}" for option, value in options.items()]
        argv = [sys.executable, *program, f"--name={name}", *flags]
        log = self.folder / f"{name}-{time.monotonic_ns()}.log"
        with running(argv, log, {**os.environ, **variables}) as server:
            server.ready(lambda: "is ready" in server.output)
            yield server
            if server.ended(0) is None:
                server.stop()

    def launch(self, *jobs: NewJob) -> list[Job]:
        """Jobs of one unit, in an experiment of its own."""
        made = self.http.post("/experiments", json={"title": "test"}).raise_for_status().json()
        body = NewUnits(units=(NewUnit(jobs=jobs),)).model_dump_json()
        answer = self.http.post(f"/experiments/{made['id']}/units", content=body)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        return Jobs.model_validate_json(answer.content).jobs

    def get(self, job: Job) -> Job:
        answer = self.http.get(f"/jobs/{job.id}").raise_for_status()
        return Job.model_validate_json(answer.content)

    def until(self, job: Job, *states: JobState, fence: int = 0) -> Job:
        deadline = time.monotonic() + LONG
        while (found := self.get(job)).state not in states or found.fence < fence:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def over(self, job: Job) -> Job:
        return self.until(job, *OVER)

    def enqueue(self, job: Job) -> None:
        self.http.post(f"/jobs/{job.id}/enqueue", json={}).raise_for_status()

    def stop(self, job: Job) -> None:
        self.http.post(f"/jobs/{job.id}/stop", json={}).raise_for_status()

    def log(self, job: Job) -> str:
        answer = self.http.get(f"/jobs/{job.id}/log").raise_for_status()
        return LogSlice.model_validate_json(answer.content).data.decode()

    def wrote(self, job: Job, text: str) -> None:
        deadline = time.monotonic() + LONG
        while text not in self.log(job):
            assert time.monotonic() < deadline, (self.get(job), self.log(job))
            time.sleep(0.02)

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.http.put(f"/blobs/{digest}", content=data).raise_for_status()
        return digest


def new_job(name: str, executable: Any, queue: str | None = "default", **spec: Any) -> NewJob:
    return NewJob(name=name, queue=queue, spec=JobSpec(executable=executable, **spec))


@contextmanager
def opened_plane(folder: Path) -> Iterator[Plane]:
    home = folder / "plane"
    home.mkdir()
    headers = {**HEADERS, "content-type": "application/json"}
    with (
        serving(home) as url,
        httpx.Client(base_url=f"{url}/v1", headers=headers, trust_env=False) as http,
    ):
        try:
            yield Plane(url, http, folder)
        finally:
            _end_jobs_below(folder)


def _end_jobs_below(folder: Path) -> None:
    """Those whose worker was killed and did not come back."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("XMCLOUD_OUTPUTS", "").startswith(str(folder)):
                process.kill()
