"""An engine that goes away while a container runs."""

import sys
from pathlib import Path

import pytest

from tests.functions.real_workers import new_job, opened_plane
from tests.support.engine import DockerEngine
from tests.support.servers import running
from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.specs import Image

pytestmark = pytest.mark.docker

WAY = """
import asyncio, sys

async def pipe(source, target):
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()

async def join(reader, writer):
    there, back = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(pipe(reader, back), pipe(there, writer), return_exceptions=True)

async def main():
    async with await asyncio.start_unix_server(join, sys.argv[1]) as server:
        print("ready", flush=True)
        await server.serve_forever()

asyncio.run(main())
"""

IMPATIENT = """
from xmcloud.worker import container
from xmcloud.worker.__main__ import main
container._ENGINE_AWAY_SECONDS = 0.1
main()
"""


def test_its_job_is_given_back(docker_engine: DockerEngine, tmp_path: Path) -> None:
    socket, engine = f"{tmp_path}/s", docker_engine.host.removeprefix("unix://")
    environment = {"XMCLOUD_WORKER_CONTAINER_HOST": f"unix://{socket}"}
    executable = Image(
        image=docker_engine.base_image, command=("bash", "-c", "echo on; sleep 1000")
    )
    with (
        opened_plane(tmp_path) as plane,
        running([sys.executable, "-c", WAY, socket, engine], tmp_path / "way", {}) as way,
        plane.worker(program=("-c", IMPATIENT), environment=environment),
    ):
        way.ready(lambda: "ready" in way.output)
        (job,) = plane.launch(new_job("train", executable))
        plane.wrote(job, "on")
        way.process.kill()
        job = plane.over(job)
    docker_engine.client().containers.get(job.full_name).remove(force=True)
    assert job.attempts[0].outcome is Outcome.RELEASED
    assert job.attempts[0].reason is not None
    assert job.attempts[0].reason.code is ReasonCode.LOST_WORKER
    assert "the container engine does not answer" in job.attempts[0].reason.message
    assert job.reason.code is ReasonCode.SETUP_FAILED
