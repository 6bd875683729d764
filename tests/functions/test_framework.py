"""The entry points as they are deployed: served by functions-framework, over a socket."""

import asyncio
import base64
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.stack import until
from tests.functions.api import HEADERS, TOKEN, Api, HeardSignals, opened_api, problem
from tests.functions.conftest import gcp_plane, sqlite_plane
from tests.support.clock import ManualClock
from tests.support.servers import Server, running
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Changes, Health, LogSlice
from xmcloud.local.processes import answers, free_port, free_ports
from xmcloud.local.standins.addresses import StandInPorts

MAIN = Path(__file__).parents[2] / "functions" / "main.py"
FRAMEWORK = Path(sys.executable).with_name("functions-framework")
EVENT = {
    "ce-id": "1",
    "ce-source": "//scheduler",
    "ce-specversion": "1.0",
    "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
}

CLOUDEVENT = ("--signature-type", "cloudevent")

pytestmark = pytest.mark.slow


class Deployment:
    """A home folder, the environment to serve it in, and a way to its store."""

    def __init__(self, home: Path, plane: Callable[..., ControlPlane], **environ: str) -> None:
        self.home, self._plane = home, plane
        self.environ = {**os.environ, "XMCLOUD_HOME": str(home), **environ}
        self.token = home / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def start(self, target: str, port: int, *options: str) -> Any:
        argv = [str(FRAMEWORK), "--asgi", "--source", str(MAIN), "--target", target]
        argv += ["--host", "127.0.0.1", "--port", str(port), *options]
        return running(argv, self.home / f"{target}.log", self.environ)

    @contextmanager
    def served(self, target: str, *options: str) -> Iterator[tuple[httpx.Client, Server]]:
        """A client of the entry point, which says nothing and ends well."""
        port = free_port()
        with self.start(target, port, *options) as server:
            probe = "/v1/health" if target == "api" else "/"
            base = f"http://127.0.0.1:{port}"
            server.ready(answers(port, probe) if target == "api" else listens(f"{base}{probe}"))
            with httpx.Client(base_url=base, headers=HEADERS, timeout=60) as client:
                yield client, server
            assert server.stop() == 0
            assert server.output == ""

    def failed_start(self) -> str:
        """What the process said before it ended."""
        with self.start("api", free_port()) as server:
            assert server.ended(60) == 1
            return str(server.output)

    def beforehand(self, work: Callable[[Api], Coroutine[Any, Any, None]], now: datetime) -> None:
        """Does something through the API in this process, at that time."""

        async def run() -> None:
            clock, signals = ManualClock(now), HeardSignals()
            plane = self._plane(clock, signals)
            async with opened_api(plane, clock, signals, self.home) as api:
                await work(api)

        asyncio.run(run())


def listens(url: str) -> Callable[[], bool]:
    def probe() -> bool:
        try:
            httpx.get(url)
        except httpx.TransportError:
            return False
        return True

    return probe


@pytest.fixture
def embedded(tmp_path: Path) -> Deployment:
    return Deployment(
        tmp_path,
        lambda clock, signals: sqlite_plane(tmp_path, clock, signals),
        XMCLOUD_PROFILE="embedded",
    )


@pytest.fixture(params=["embedded", pytest.param("gcp", marks=pytest.mark.emulator)])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Deployment:
    if request.param == "embedded":
        embedded: Deployment = request.getfixturevalue("embedded")
        return embedded
    project = request.getfixturevalue("gcp_project")
    return Deployment(
        tmp_path,
        lambda clock, signals: gcp_plane(project, clock, signals),
        XMCLOUD_PROFILE="gcp",
        XMCLOUD_BUCKET=f"bucket-{project}",
    )


def test_the_api_answers(deployment: Deployment) -> None:
    with deployment.served("api") as (client, _):
        health = client.get("/v1/health", headers={"Authorization": ""})
        assert Health.model_validate_json(health.content).status == "ok"
        refused = client.get("/v1/experiments", headers={"Authorization": "Bearer wrong"})
        assert problem(refused).status == 401
        key = {"Idempotency-Key": "one"}
        first, second = (
            client.post("/v1/experiments", json={"title": "a/b 🦊"}, headers=key) for _ in range(2)
        )
        assert first.status_code == 201
        assert first.json() == second.json()
        data = os.urandom(3_000_000)
        path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
        pieces = (data[start : start + 100_000] for start in range(0, len(data), 100_000))
        assert client.put(path, content=pieces).status_code == 201
        assert client.get(path).content == data
        assert client.head(path).status_code == 200
        assert client.head(path.replace(path[-4:], "0000")).status_code == 404
        assert "/v1/experiments" in client.get("/v1/openapi.json").json()["paths"]
        assert client.get("/v1/docs").headers["content-type"].startswith("text/html")
    with deployment.served("api") as (client, _):
        found = client.get(f"/v1/experiments/{first.json()['id']}")
        assert found.json()["experiment"] == first.json()


def test_a_body_that_grows_too_large_over_a_socket(embedded: Deployment) -> None:
    with embedded.served("api") as (client, _):
        pieces = (b"x" * 1_000_000 for _ in range(34))
        refused = client.put(f"/v1/blobs/{'0' * 64}", content=pieces)
        assert problem(refused).type == "urn:xmcloud:problem:too-large"


def test_a_request_that_waits_wakes_with_a_change(deployment: Deployment) -> None:
    with deployment.served("api") as (client, _):
        id = client.post("/v1/experiments", json={"title": "a"}).json()["id"]
        path = f"/v1/experiments/{id}"
        cursor = client.get(f"{path}/changes").json()["cursor"]
        found: list[Changes] = []

        def wait() -> None:
            query = {"since": cursor, "wait_seconds": 50}
            answer = client.get(f"{path}/changes", params=query)
            found.append(Changes.model_validate_json(answer.content))

        waiting = threading.Thread(target=wait)
        waiting.start()
        spec = {"executable": {"kind": "command", "command": ["true"]}}
        body = {"units": [{"jobs": [{"name": "a", "spec": spec}]}]}
        client.post(f"{path}/units", json=body)
        waiting.join(40)
        assert [job.name for job in found[0].jobs] == ["a"]


def test_requests_under_way_are_answered_when_it_ends(embedded: Deployment) -> None:
    with embedded.served("api") as (client, server):
        id = client.post("/v1/experiments", json={"title": "a"}).json()["id"]
        spec = {"executable": {"kind": "command", "command": ["true"]}}
        body = {"units": [{"jobs": [{"name": "a", "spec": spec}]}]}
        job = client.post(f"/v1/experiments/{id}/units", json=body).json()["jobs"][0]
        log = f"/v1/jobs/{job['id']}/log"
        request = client.build_request("GET", log, params={"wait_seconds": 1})
        answer: list[LogSlice] = []
        waiting = threading.Thread(
            target=lambda: answer.append(LogSlice.model_validate_json(client.send(request).content))
        )
        waiting.start()
        # A request of a connection made later is answered when the one that waits was received.
        assert client.get("/v1/health").is_success
        server.process.terminate()
        waiting.join(20)
        assert (answer[0].data, answer[0].complete) == (b"", False)
        assert server.ended(20) == 0


def test_the_sweep_answers_an_event(deployment: Deployment) -> None:
    """A lease that ran out years ago ends, and its job waits again."""
    held: list[Job] = []

    async def hold(api: Api) -> None:
        held.append(await api.running(await api.job(), await api.session()))

    deployment.beforehand(hold, datetime(2020, 1, 1, tzinfo=UTC))
    with deployment.served("sweep", "--signature-type", "cloudevent") as (client, _):
        for _ in range(2):
            swept = client.post("/", headers=EVENT, json={"message": {}})
            assert swept.status_code == 200, swept.text
        assert client.post("/", json={}).status_code == 400
    with deployment.served("api") as (client, _):
        job = Job.model_validate_json(client.get(f"/v1/jobs/{held[0].id}").content)
        assert (job.state, job.losses) == (JobState.QUEUED, 1)


def test_a_permit_submits_a_job_and_an_event_ends_it(embedded: Deployment) -> None:
    """As Pub/Sub triggers them, with the real client of Vertex AI; every message comes twice."""
    ports = StandInPorts(*free_ports(len(StandInPorts._fields)))
    embedded.environ |= {**ports.environment(), "DOCKER_HOST": "unix:///nowhere"}
    added: list[Job] = []

    async def add(api: Api) -> None:
        image = {"kind": "image", "image": "i", "command": ["/bin/sh", "-c", "exit 0"]}
        added.append(await api.job(executable=image, pool="vertex"))

    def now(client: httpx.Client) -> Job:
        return Job.model_validate_json(client.get(f"/v1/jobs/{added[0].id}").content)

    embedded.beforehand(add, datetime.now(UTC))
    argv = [sys.executable, "-m", "xmcloud.local.standins.serve", f"--home={embedded.home}"]
    argv.append(f"--ports={','.join(map(str, ports))}")
    with running(argv, embedded.home / "stand-ins.log", embedded.environ) as stand_ins:
        stand_ins.ready(answers(ports.faults, "/faults/vertex"))
        with embedded.served("dispatch", *CLOUDEVENT) as (client, _):
            for _ in range(2):
                post_message(client, added[0].id, audience="vertex")
        with embedded.served("api") as (api, _):
            (attempt,) = now(api).attempts
            assert attempt.remote is not None
            id = attempt.remote.name.rpartition("/")[2]
            entry = json.dumps({"resource": {"type": "ml_job", "labels": {"job_id": id}}})
            with embedded.served("platform_event", *CLOUDEVENT) as (client, _):
                until(lambda: post_message(client, entry) and now(api).state.terminal, "it ended")
                post_message(client, entry)
            assert (now(api).state, len(now(api).attempts)) == (JobState.COMPLETED, 1)


def post_message(client: httpx.Client, body: str, **attributes: str) -> bool:
    data = base64.b64encode(body.encode()).decode()
    message = {"data": data, "attributes": attributes, "messageId": "1"}
    taken = client.post("/", headers=EVENT, json={"message": message})
    assert taken.status_code == 200, taken.text
    return True


@pytest.mark.parametrize("target", ["dispatch", "build_event", "platform_event"])
def test_messages_of_pubsub_are_taken(embedded: Deployment, target: str) -> None:
    """As its trigger delivers them; one that is about nothing here is no failure."""
    with embedded.served(target, *CLOUDEVENT) as (client, _):
        for _ in range(2):
            post_message(client, '{"name": "projects/p/builds/1"}', audience="nobody")


@pytest.mark.parametrize("name", ["XMCLOUD_HOME", "GOOGLE_CLOUD_PROJECT", "XMCLOUD_BUCKET"])
def test_a_variable_that_is_missing(embedded: Deployment, name: str) -> None:
    embedded.environ |= {
        "XMCLOUD_PROFILE": "gcp", "GOOGLE_CLOUD_PROJECT": "p", "XMCLOUD_BUCKET": "b",
    }  # fmt: skip
    del embedded.environ[name]
    expected = f"Error: The environment variable {name} is not set. Set {name}.\n"
    assert embedded.failed_start() == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "XMCLOUD_RATE_LIMIT",
            "50",
            "XMCLOUD_RATE_LIMIT is '50'. It must be as 50/500 (a second, and at once), or off.",
        ),
        ("XMCLOUD_PROFILE", "aws", "XMCLOUD_PROFILE is 'aws'. Use embedded or gcp."),
        (
            "XMCLOUD_LEASE_SECONDS",
            "soon",
            "XMCLOUD_LEASE_SECONDS is 'soon'. It must be seconds, above 0 up to 3600.",
        ),
    ],
)
def test_a_variable_that_is_wrong(embedded: Deployment, name: str, value: str, said: str) -> None:
    embedded.environ[name] = value
    assert embedded.failed_start() == f"Error: {said}\n"


def test_a_token_that_others_can_read(embedded: Deployment) -> None:
    embedded.token.chmod(0o644)
    assert embedded.failed_start() == (
        f"Error: The token file {embedded.token} can be read by others (mode 0644). "
        f"Make it private: chmod 600 {embedded.token}\n"
    )


def test_a_token_that_is_missing(embedded: Deployment) -> None:
    embedded.token.unlink()
    said = embedded.failed_start()
    assert said.startswith(f"Error: There is no token file {embedded.token}. ")
    assert said.count("\n") == 1


def test_a_store_that_is_damaged(embedded: Deployment) -> None:
    (embedded.home / "store.db").write_bytes(b"not a database" * 1000)
    assert embedded.failed_start() == (
        f"Error: The database {embedded.home}/store.db cannot be read: file is not a database. "
        "Restore it from a backup, or move it away to start with an empty one.\n"
    )


def test_a_home_that_is_missing(embedded: Deployment) -> None:
    embedded.environ["XMCLOUD_HOME"] = str(embedded.home / "nowhere")
    said = embedded.failed_start()
    assert said.startswith(f"Error: {embedded.home}/nowhere/store.db: unable to open")
    assert said.count("\n") == 1
