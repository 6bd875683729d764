"""A Cloud Build of a test's own, and what its builds are made of."""

import asyncio
import gzip
import hashlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.clock import START
from tests.support.engine import BASE_IMAGE, DockerEngine
from tests.support.tars import tarfile
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.gcp.cloud_build import CloudBuildBuilder
from xmcloud.core.builds import Build, BuildSpec, requested
from xmcloud.core.errors import NotFound, StorageFull
from xmcloud.core.platforms import Builder, BuilderJob
from xmcloud.core.ports import Clock
from xmcloud.local.standins.cloud_build import serve_cloud_build
from xmcloud.local.standins.faults import Faults

PROJECT, BUCKET = "my-project", "my-bucket"
NO_ENGINE = {"PATH": "/usr/bin:/bin", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
_FINAL = {"SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"}
_SECONDS = 60


@dataclass
class CloudBuilds:
    """The builder under test, and what lies behind its service."""

    builder: Builder
    blobs: FileBlobs
    faults: Faults
    address: str
    written: asyncio.Condition = field(default_factory=asyncio.Condition)
    disk_full: bool = False
    events: list[str] = field(default_factory=list)
    _told: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def emit(self, body: str) -> None:
        async with self._told:
            self.events.append(body)
            self._told.notify_all()

    def statuses(self, name: str) -> list[str]:
        """As the events told, one after the other."""
        return [json.loads(e)["status"] for e in self.events if self.builder.event(e) == name]

    async def until(self, name: str, *statuses: str) -> BuilderJob:
        async with asyncio.timeout(_SECONDS), self._told:
            await self._told.wait_for(lambda: {*statuses} & {*self.statuses(name)})
        job = await self.builder.get(name)
        assert job is not None
        return job

    async def until_told(self, name: str, times: int) -> None:
        async with asyncio.timeout(_SECONDS), self._told:
            await self._told.wait_for(lambda: len(self.statuses(name)) >= times)

    async def until_logged(self, name: str, text: str) -> None:
        async with asyncio.timeout(_SECONDS), self.written:
            while text not in await self.log(name):
                await self.written.wait()

    async def until_over(self, name: str) -> BuilderJob:
        return await self.until(name, *_FINAL)

    async def build(
        self, instructions: str, files: Mapping[str, str] | None = None, **spec: Any
    ) -> Build:
        """Of an archive that is stored; `FROM` the base image."""
        dockerfile = f"FROM {BASE_IMAGE}\n{instructions}\n"
        archive = archived({"Dockerfile": dockerfile, **(files or {})})
        digest = hashlib.sha256(archive).hexdigest()
        await self.blobs.put(f"content/{digest}", archive)
        return build(archive=digest, **spec)

    async def log(self, name: str) -> str:
        id = name.rpartition("/")[2]
        return (await self.blobs.get(f"build-logs/log-{id}.txt")).decode()


class Gate:
    """Where the RUN of a build waits, and tells the test that it does."""

    def __init__(self) -> None:
        self.port = 0
        self.arrived, self.left, self._opened = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def wait(self) -> str:
        """The instruction."""
        connect = f"socket.create_connection(('127.0.0.1', {self.port}))"
        return f'RUN python3 -c "import socket; {connect}.recv(1)"'

    def open(self) -> None:
        self._opened.set()

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.arrived.set()
        leaving, opening = map(asyncio.ensure_future, (reader.read(1), self._opened.wait()))
        await asyncio.wait({leaving, opening}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        writer.write(b".")
        writer.close()
        await asyncio.wait({leaving})
        self.left.set()


@asynccontextmanager
async def gate() -> AsyncIterator[Gate]:
    here = Gate()
    async with await asyncio.start_server(here.visit, "127.0.0.1", 0) as server:
        here.port = server.sockets[0].getsockname()[1]
        yield here


@asynccontextmanager
async def cloud_builds(
    folder: Path,
    *,
    environ: Mapping[str, str] = NO_ENGINE,
    registry: str = "127.0.0.1:1",
    clock: Clock | None = None,
    at_once: int = 4,
) -> AsyncIterator[CloudBuilds]:
    blobs, faults = FileBlobs(folder), Faults()

    async def read(bucket: str, key: str) -> bytes:
        if bucket != BUCKET:
            raise NotFound("bucket", bucket)
        return await blobs.get(key)

    async def write(bucket: str, key: str, data: bytes) -> None:
        assert bucket == BUCKET
        if bench.disk_full:
            raise StorageFull(str(folder))
        await blobs.put(key, data)
        async with bench.written:
            bench.written.notify_all()

    async def emit(body: str) -> None:
        await bench.emit(body)

    serving = serve_cloud_build(
        0,
        PROJECT,
        read,
        write,
        emit,
        faults=faults,
        clock=clock,
        environ=environ,
        at_once=at_once,
    )
    async with serving as address:
        builder = builder_at(address, blobs, registry)
        bench = CloudBuilds(builder, blobs, faults, address)
        yield bench
        await builder.close()


def printed(engine: DockerEngine, image: str) -> bytes:
    """What the image prints when it runs."""
    container = engine.client().containers.run(image, network_mode="host", detach=True)
    assert container.wait()["StatusCode"] == 0
    # Only now: of a container that ends at once, what is followed may come out empty.
    output: bytes = container.logs()
    container.remove()
    return output


def builder_at(
    address: str,
    blobs: FileBlobs,
    registry: str = "127.0.0.1:1",
    *,
    deadline: float = 30.0,
    location: str = "global",
) -> Builder:
    return CloudBuildBuilder(
        project=PROJECT,
        location=location,
        bucket=BUCKET,
        registry=f"{registry}/xmcloud",
        blobs=blobs,
        endpoint=address,
        deadline=deadline,
    )


def build(archive: str = "0" * 64, name: str = "train", tries: int = 1, **spec: Any) -> Build:
    made = BuildSpec(archive=archive, name=name, **spec)
    return requested(made, "ann", START).evolve(tries=tries)


def archived(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)
