"""A group on Vertex AI's stand-in, in containers."""

from pathlib import Path

import pytest

from tests.contracts.platforms import VertexBench, ended, group, job, launch
from tests.support.engine import DockerEngine
from xmcloud.adapters.gcp.vertex import VertexPlatform
from xmcloud.core.models import Job
from xmcloud.core.platforms import PlatformState
from xmcloud.core.specs import Argument, Image
from xmcloud.local.processes import LOOPBACK, free_ports
from xmcloud.local.standins.containers import local_runner
from xmcloud.local.standins.faults import Faults
from xmcloud.local.standins.vertex import serve_vertex

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

ADDRESS = """
import json, os, socket
host, port = json.loads(os.environ["CLUSTER_SPEC"])["cluster"]["workerpool0"][0].split(":")
address = host, int(port)
names = json.loads(os.environ["XMCLOUD_POOLS"])
"""
CHIEF = f"""{ADDRESS}
with socket.create_server(address) as server:
    worker, _ = server.accept()
    told = worker.makefile().readline()
os.makedirs(os.environ["XMCLOUD_CHECKPOINT"])
with open(os.path.join(os.environ["XMCLOUD_CHECKPOINT"], "told"), "w") as file:
    file.write(told)
print(names)
"""
WORKER = f"""{ADDRESS}
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # a first process has no default
while True:
    try:
        chief = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
chief.sendall((sys.argv[1] + "\\n").encode())
time.sleep(100)
"""


async def test_jobs_of_a_group_reach_one_another_and_keep_files(
    docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in docker_engine.environment.items():
        monkeypatch.setenv(name, value)
    [port] = free_ports(1)
    platform = VertexPlatform("proj", ["us-central1"], "outputs", endpoint=f"{LOOPBACK}:{port}")
    bench = VertexBench(platform, faults := Faults(), logs := tmp_path / "logs")
    (outputs := tmp_path / "outputs").mkdir()
    jobs = group(
        on(docker_engine, "chief", CHIEF), on(docker_engine, "worker", WORKER, "hello  you")
    )
    async with local_runner() as runner:
        locations, buckets = ["us-central1"], {"outputs": outputs}
        async with serve_vertex(port, "proj", locations, buckets, logs, bench.told, faults, runner):
            submitted = await platform.submit(launch("a", *jobs))
            told = await ended(platform, submitted.name)
            await platform.close()
    assert told.state is PlatformState.SUCCEEDED, told.message
    assert bench.printed(told.name) == "['chief', 'worker']\n"
    [written] = outputs.glob(f"checkpoints/{jobs[0].id}/told")
    assert written.read_text() == "hello  you\n"
    assert docker_engine.client().containers.list(all=True, filters={"name": "vertex-"}) == []


def on(engine: DockerEngine, name: str, script: str, *args: str) -> Job:
    made = job(name, "")
    image = Image(image=engine.base_image, command=("python3", "-c"))
    arguments = tuple(Argument(value=value) for value in (script, *args))
    return made.evolve(spec=made.spec.evolve(executable=image, arguments=arguments))
