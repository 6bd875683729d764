"""Custom jobs and their lives, in memory."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

from google.cloud import aiplatform_v1 as vertex
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from xmcloud.core.errors import Unavailable
from xmcloud.local.standins.containers import CannotRun, Runner
from xmcloud.local.standins.faults import Ending, Faults
from xmcloud.local.standins.vertex_replicas import Failed, Place, Replicas

Emit = Callable[[str], Awaitable[None]]
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
_INTERNAL = "Internal error occurred for the current attempt."
_WORDS: Mapping[str, str] = {
    "QUEUED": "Job is queued.",
    "PENDING": "Job is preparing.",
    "RUNNING": "Job is running.",
    "SUCCEEDED": "Job completed successfully.",
    "FAILED": "Job failed.",
    "CANCELLING": "Job is being cancelled.",
    "CANCELLED": "Job cancelled.",
}


class Jobs:
    """All jobs of one project; those that run end with it."""

    def __init__(
        self,
        project: str,
        runner: Runner,
        buckets: Mapping[str, Path],
        logs: Path,
        emit: Emit,
        faults: Faults,
    ) -> None:
        self._project = project
        self._runner = runner
        self._buckets = buckets
        self._logs = logs
        self._faults = faults
        self._entries: asyncio.Queue[str | None] = asyncio.Queue()
        self._telling = asyncio.create_task(self._tell(emit))
        self._jobs: dict[str, vertex.CustomJob] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}

    def create(self, project_number: str, location: str, job: vertex.CustomJob) -> vertex.CustomJob:
        id = str(10**18 + secrets.randbelow(8 * 10**18))
        made = vertex.CustomJob(job)
        made.name = f"projects/{project_number}/locations/{location}/customJobs/{id}"
        made.create_time = _now()
        self._jobs[id] = made
        self._enter(made, "QUEUED")
        self._lives[id] = life = asyncio.create_task(self._live(id, made))
        life.add_done_callback(partial(self._settle, made))
        return made

    def get(self, id: str) -> vertex.CustomJob | None:
        return self._jobs.get(id)

    def newest_first(self, location: str) -> list[vertex.CustomJob]:
        jobs = reversed(self._jobs.values())
        return [job for job in jobs if f"/locations/{location}/" in job.name]

    def cancel(self, id: str) -> None:
        job = self._jobs[id]
        if state_of(job) != "CANCELLING":
            self._enter(job, "CANCELLING")
            self._lives[id].cancel()

    def delete(self, id: str) -> None:
        del self._jobs[id]

    async def close(self) -> None:
        for life in self._lives.values():
            life.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)
        self._entries.put_nowait(None)
        await self._telling

    async def _tell(self, emit: Emit) -> None:
        while (entry := await self._entries.get()) is not None:
            with suppress(Unavailable):  # as routed log entries, events may be lost
                await emit(entry)

    async def _live(self, id: str, job: vertex.CustomJob) -> None:
        try:
            await self._faults.released()
            self._enter(job, "PENDING")
            await self._run(id, job)
        except (CannotRun, Failed) as error:
            code = error.code if isinstance(error, Failed) else 3
            self._end(job, "FAILED", Status(code=code, message=str(error)))
        else:
            self._end(job, "SUCCEEDED", None)

    async def _run(self, id: str, job: vertex.CustomJob) -> None:
        place = Place(self._buckets, self._logs / id)
        replicas = await Replicas.start(job, self._runner, place)
        try:
            job.start_time = _now()
            self._enter(job, "RUNNING")
            limit = cast(timedelta, job.job_spec.scheduling.timeout)
            async with asyncio.timeout(limit.total_seconds() or None):
                await self._outcome(id, job, replicas)
        except TimeoutError as error:
            raise asyncio.CancelledError from error
        finally:
            await replicas.stop()

    async def _outcome(self, id: str, job: vertex.CustomJob, replicas: Replicas) -> None:
        """The job's own, or one that a fault gives it."""
        own = asyncio.create_task(replicas.succeeded())
        fault = asyncio.create_task(
            self._faults.ending(id, job.display_name, *dict(job.labels).values())
        )
        try:
            await asyncio.wait({own, fault}, return_when=asyncio.FIRST_COMPLETED)
            if own.done():
                own.result()
            else:
                raise _struck(fault.result(), job.name.split("/")[3])
        finally:
            own.cancel()
            fault.cancel()
            await asyncio.gather(own, fault, return_exceptions=True)

    def _settle(self, job: vertex.CustomJob, life: asyncio.Task[None]) -> None:
        """Of a job that was cancelled, maybe before its life began, or that the engine lost."""
        if life.cancelled():
            self._end(job, "CANCELLED", Status(code=1, message="CANCELED"))
        elif error := life.exception():
            self._end(job, "FAILED", Status(code=13, message=f"{_INTERNAL} {error!r}"))

    def _end(self, job: vertex.CustomJob, state: str, error: Status | None) -> None:
        job.end_time = _now()
        if error is not None:
            job.error = error
        self._enter(job, state)

    def _enter(self, job: vertex.CustomJob, state: str) -> None:
        job.state = getattr(vertex.JobState, f"JOB_STATE_{state}")
        job.update_time = _now()
        for _ in range(1 + self._faults.plan.duplicates):
            self._entries.put_nowait(self._entry(job))

    def _entry(self, job: vertex.CustomJob) -> str:
        """As Cloud Logging has it."""
        id = job.name.rpartition("/")[2]
        return json.dumps(
            {
                "insertId": secrets.token_hex(8),
                "jsonPayload": {"message": _WORDS[state_of(job)]},
                "labels": {"ml.googleapis.com/endpoint": ""},
                "logName": f"projects/{self._project}/logs/ml.googleapis.com%2F{id}",
                "resource": {
                    "type": "ml_job",
                    "labels": {"job_id": id, "project_id": self._project, "task_name": "service"},
                },
                "severity": "INFO",
                "timestamp": datetime.now(UTC).isoformat(),
            }
        )


def state_of(job: vertex.CustomJob) -> str:
    return str(job.state.name).removeprefix("JOB_STATE_")


def _now() -> Timestamp:
    now = Timestamp()
    now.GetCurrentTime()
    return now


def _struck(ending: Ending, location: str) -> Failed:
    if ending == "preempt":
        return Failed(8, f"STOCKOUT: Resources are insufficient in region: {location}.")
    return Failed(13, _INTERNAL)
