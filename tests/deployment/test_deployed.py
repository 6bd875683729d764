"""The archive of functions/ in an environment of its own requirements, every entry point served.

Between the functions there is what Terraform describes: their variables, topics, the addresses
that messages are pushed to, and the schedule.
"""

import asyncio
import base64
import hashlib
import re
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.deployment.cloud import Cloud
from tests.deployment.conftest import Deployed, FirstStart, Functions
from tests.functions.api import HeardSignals, opened_api
from tests.functions.conftest import gcp_plane
from tests.support.clock import ManualClock
from xmcloud.core.builds import Build, BuildState
from xmcloud.core.models import Job, JobState, ReasonCode
from xmcloud.core.protocol import Health
from xmcloud.core.version import VERSION

pytestmark = [pytest.mark.anyio, pytest.mark.emulator, pytest.mark.slow]

DEADLINE = 60
SLOW = re.compile(
    r"google\.(cloud\.(?!functions)|pubsub_v1|auth|oauth2|longrunning)"
    r"|(aiohttp|cryptography|docker|httpx|kubernetes|requests|rich|sqlite3|psutil)$"
    r"|opentelemetry\.sdk$"
)
"""Clients of services, and what they bring."""


async def job_of(functions: Functions, experiment: str, **spec: object) -> Job:
    body = {"units": [{"jobs": [{"name": "train", "queue": "default", "spec": spec}]}]}
    made = await functions.api.post(f"/v1/experiments/{experiment}/units", json=body)
    assert made.status_code == 201, made.text
    return Job.model_validate(made.json()["jobs"][0])


async def experiment(functions: Functions) -> str:
    made = await functions.api.post("/v1/experiments", json={"title": "a/b 🦊"})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def now(functions: Functions, job: Job) -> Job:
    found = await functions.api.get(f"/v1/jobs/{job.id}")
    return Job.model_validate_json(found.raise_for_status().content)


async def delivered(functions: Functions, cloud: Cloud) -> None:
    """All that waits is pushed, twice, and taken."""
    answers = await cloud.deliver(functions.push)
    assert [(a.status_code, a.text) for a in answers if a.status_code != 200] == []


async def until_over(functions: Functions, cloud: Cloud, job: Job) -> Job:
    async with asyncio.timeout(DEADLINE):
        while not (found := await now(functions, job)).state.terminal:
            await delivered(functions, cloud)
    return found


def test_the_archive_holds_sources_alone(deployed: Deployed) -> None:
    with ZipFile(deployed.archive) as packed:
        modes = {entry.filename: entry.external_attr >> 16 for entry in packed.infolist()}
    assert {"main.py", "requirements.txt", "xmcloud/core/models.py"} <= modes.keys()
    assert {mode & 0o777 for mode in modes.values()} == {0o644}
    assert [name for name in modes if "__pycache__" in name or name.endswith(".pyc")] == []


def test_the_process_has_the_archive_and_its_requirements_alone(
    deployed: Deployed, first_start: FirstStart
) -> None:
    assert first_start.status == 200
    assert Health.model_validate_json(first_start.health).version == VERSION
    files = {name: Path(file) for name, file in first_start.loaded.items() if file}
    ours = {name for name in files if name == "main" or name.startswith("xmcloud.")}
    assert {"main", "xmcloud.core.models", "xmcloud.functions.deployed"} <= ours
    environment, standard = deployed.programs.parent, Path(sysconfig.get_path("stdlib"))
    assert not environment.is_relative_to(standard)
    for name, file in files.items():
        roots = [deployed.folder] if name in ours else [environment, standard]
        assert any(file.is_relative_to(root) for root in roots), (name, file)
        assert "dist-packages" not in file.parts


def test_what_is_slow_to_load_waits_for_the_first_request_that_needs_it(
    first_start: FirstStart,
) -> None:
    """How long a start takes: python -m benchmarks.cold_start"""
    slow = {name for name in first_start.loaded if SLOW.match(name)}
    assert slow == set()


async def test_an_experiment_with_a_job_on_vertex_ai(functions: Functions, cloud: Cloud) -> None:
    """`api` publishes a permit, `dispatch` submits the job, `platform_event` hears of its end."""
    health = await functions.api.get("/v1/health", headers={"Authorization": ""})
    assert Health.model_validate_json(health.content).status == "ok"
    nobody = await functions.api.get("/v1/experiments", headers={"Authorization": ""})
    assert nobody.status_code == 401
    image = {"kind": "image", "image": "i", "command": ["/bin/sh", "-c", "exit 0"]}
    job = await job_of(functions, await experiment(functions), executable=image, pool="vertex")
    assert job.state is JobState.QUEUED
    ended = await until_over(functions, cloud, job)
    assert (ended.state, len(ended.attempts)) == (JobState.COMPLETED, 1)
    remote = ended.attempts[0].remote
    assert remote is not None
    assert cloud.jobs == {remote.name.rpartition("/")[2]}
    await delivered(functions, cloud)
    assert await now(functions, job) == ended


async def test_a_build_that_never_succeeds(functions: Functions, cloud: Cloud) -> None:
    """There is no engine behind this Cloud Build: `build_event` asks again, and then gives up."""
    data = b"no tar"
    digest = hashlib.sha256(data).hexdigest()
    stored = await functions.api.put(f"/v1/blobs/{digest}", content=data)
    assert stored.status_code == 201, stored.text
    asked = {"spec": {"archive": digest, "name": "train"}}
    build = Build.model_validate((await functions.api.post("/v1/builds", json=asked)).json())
    assert (build.state.terminal, build.tries) == (False, 1)
    image = {"kind": "image", "build": build.id}
    job = await job_of(functions, await experiment(functions), executable=image, pool="vertex")
    assert job.state is JobState.BUILDING
    ended = await until_over(functions, cloud, job)
    assert ended.reason is not None
    assert (ended.state, ended.reason.code) == (JobState.FAILED, ReasonCode.BUILD_FAILED)
    found = await functions.api.get(f"/v1/builds/{build.id}")
    build = Build.model_validate_json(found.content)
    assert (build.state, build.tries, len(cloud.builds)) == (BuildState.FAILED, 3, 3)


async def test_the_schedule_takes_back_what_a_silent_worker_holds(
    functions: Functions, cloud: Cloud, tmp_path: Path
) -> None:
    clock, signals = ManualClock(datetime(2020, 1, 1, tzinfo=UTC)), HeardSignals()
    plane = gcp_plane(cloud.variables["GOOGLE_CLOUD_PROJECT"], clock, signals)
    async with opened_api(plane, clock, signals, tmp_path) as past:
        held = await past.running(await past.job(pool="local"), await past.session(pool="local"))
    assert (await now(functions, held)).state is JobState.RUNNING
    (request,) = cloud.applied.one("google_cloud_scheduler_job").values["http_target"]
    body = base64.b64decode(request["body"])
    for _ in range(2):
        swept = await functions.clients["sweep"].post("/", headers=request["headers"], content=body)
        assert (swept.status_code, swept.text) == (200, "OK")
    job = await now(functions, held)
    assert (job.state, job.losses) == (JobState.QUEUED, 1)


NO_MESSAGE = [b"", b"{", b"[]", b'{"message": 1}']
NO_TEXT = b'{"message": {"data": "/w=="}}'


@pytest.mark.parametrize(
    ("target", "bodies"),
    [
        ("dispatch", NO_MESSAGE),
        ("build_event", [*NO_MESSAGE, NO_TEXT]),
        ("platform_event", [*NO_MESSAGE, NO_TEXT]),
    ],
)
async def test_an_event_that_is_malformed(
    functions: Functions, cloud: Cloud, target: str, bodies: list[bytes]
) -> None:
    """It is an error, so that it comes to the dead letters; the process goes on."""
    push = next(push for push in cloud.pushes if push.entry_point == target)
    message = {"data": "e30=", "messageId": "1", "publishTime": "2030-01-01T00:00:00Z"}
    headers, client, url = push.headers(message), functions.clients[target], f"/?{push.query}"
    for body in bodies:
        refused = await client.post(url, headers=headers, content=body)
        assert refused.status_code in (400, 500), (body, refused.text)
    bare = await client.post(url, json=push.body(message))
    assert bare.status_code == 400, bare.text
    taken = await functions.push(push, headers, push.body(message))
    assert taken.status_code == 200, taken.text
