"""A worker with real processes, the API in this process, and a network between them that fails."""

import asyncio
import hashlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.functions.api import TOKEN, Api, HeardSignals, opened_api
from tests.support.clock import ManualClock
from tests.support.wire import TransportWire
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import StorageFull
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import LogSlice
from xmcloud.core.specs import Command
from xmcloud.worker.client import ApiClient
from xmcloud.worker.containers import Containers
from xmcloud.worker.family import set_subreaper
from xmcloud.worker.main import Worker
from xmcloud.worker.settings import WorkerSettings

LONG = 20.0
"""Seconds; ends a test that would fail, delays none that passes."""


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


class Network(httpx.AsyncBaseTransport):
    """Counts requests, and fails when told to."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()
        self.down = False
        self.refused_with = 0
        self.garble = 0
        self.places = 0
        """Answers that kept a slot for a job of a group."""
        self.lose_answer_to: Callable[[bytes], bool] = lambda body: False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("the network is down", request=request)
        if self.refused_with:
            return httpx.Response(self.refused_with, request=request)
        if self.garble:
            self.garble -= 1
            return httpx.Response(200, text="<html>Please sign in</html>", request=request)
        self.requests[request.url.path.rsplit("/", 1)[-1]] += 1
        response = await self._inner.handle_async_request(request)
        self.places += b'"reservations":[{' in await response.aread()
        if self.lose_answer_to(request.content if request.method == "POST" else b""):
            self.lose_answer_to = lambda body: False
            raise httpx.ReadError("the connection broke", request=request)
        return response


class Disk(FileBlobs):
    """Blobs on a disk that may be full."""

    full = False

    async def put(self, key: str, data: bytes) -> None:
        if self.full:
            raise StorageFull("/blobs")
        await super().put(key, data)


class Rig:
    """The API, the network to it and a folder for the worker."""

    def __init__(self, api: Api, network: Network, disk: Disk, folder: Path) -> None:
        self.api, self.network, self.disk, self.folder = api, network, disk, folder

    @asynccontextmanager
    async def worker(self, **settings: Any) -> AsyncIterator["asyncio.Task[None]"]:
        """One that runs until the block ends."""
        known = WorkerSettings(
            **{
                "url": "http://api",
                "token": TOKEN,
                "name": "ant",
                "home": self.folder / "home",
                "cache": self.folder / "cache",
                "disk_floor_bytes": 0,
                "address": "127.0.0.1",
                **settings,
            }
        )
        known.folder.mkdir(parents=True, exist_ok=True)
        wire = TransportWire(self.network, TOKEN)
        containers = Containers(known.container_host, known.container_network, known.gcs_root)
        with closing(containers):
            async with ApiClient(wire, "http://api") as client:
                task = asyncio.create_task(Worker(known, client, containers).run())
                try:
                    yield task
                finally:
                    if not task.done():
                        os.kill(os.getpid(), signal.SIGTERM)
                        async with asyncio.timeout(LONG):
                            await task

    async def launch(self, *argv: str, **spec: Any) -> Job:
        return await self.api.job(executable=command(*argv), **spec)

    async def until(self, job: Job, *states: JobState, fence: int = 0) -> Job:
        async with asyncio.timeout(LONG):
            while True:
                job = await self.api.get(Job, f"/jobs/{job.id}")
                if job.state in states and job.fence >= fence:
                    return job
                await asyncio.sleep(0.01)

    async def over(self, job: Job) -> Job:
        return await self.until(job, JobState.COMPLETED, JobState.FAILED, JobState.STOPPED)

    async def log(self, job: Job) -> bytes:
        data = b""
        while True:
            part = await self.api.get(LogSlice, f"/jobs/{job.id}/log", offset=len(data))
            data += part.data
            if not part.data:
                return data

    async def wrote(self, job: Job, text: bytes) -> None:
        async with asyncio.timeout(LONG):
            while True:
                if text in await self.log(job):
                    return
                await asyncio.sleep(0.01)

    async def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        await self.api.call("PUT", f"/blobs/{digest}", status=201, content=data)
        return digest


@asynccontextmanager
async def opened_rig(folder: Path) -> AsyncIterator[Rig]:
    home = folder / "plane"
    home.mkdir()
    clock, disk, signals = SystemClock(), Disk(home / "blobs"), HeardSignals()
    plane = ControlPlane(
        store=SqliteStore(home / "store.db"),
        queue=SqliteQueue(home / "queue.db", clock),
        blobs=disk,
        clock=clock,
        signals=signals,
        lease=timedelta(minutes=5),
        heartbeat=timedelta(minutes=1),
    )
    async with opened_api(plane, ManualClock(), signals, home) as api:
        try:
            yield Rig(api, Network(httpx.ASGITransport(api.app)), disk, folder)
        finally:
            set_subreaper(False)


def command(*argv: str) -> Command:
    return Command(command=argv)
