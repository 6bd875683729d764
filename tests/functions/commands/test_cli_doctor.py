"""`xmcloud doctor` over a real control plane, and over servers that are none."""

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.functions.xm_cloud.server import HEADERS, TOKEN
from xmcloud.cli.checks import line, round_trips
from xmcloud.cli.checks.check import Verdict
from xmcloud.cli.checks.engine import check_engine
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.core.protocol import Act, NewExperiment, NewJob, NewUnit, NewUnits, Stop
from xmcloud.core.specs import Command, JobSpec
from xmcloud.core.topics import control_subscription
from xmcloud.core.version import VERSION
from xmcloud.xm_cloud.client import Client


@pytest.fixture
def ant(url: str) -> Iterator[None]:
    """A worker of pool local that is connected."""
    with httpx.Client(base_url=f"{url}/v1", headers=HEADERS) as http:
        opened = http.post("/workers/ant/sessions", json={}).raise_for_status().json()
        yield
        http.post(f"/sessions/{opened['session']['id']}/close").raise_for_status()


def doctor(*words: str) -> Result:
    result = CliRunner().invoke(cli, ["doctor", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def plane(status: int = 0) -> dict[str, Any]:
    """What is told of the control plane, by name."""
    result = doctor("--json")
    assert result.exit_code == status, result.output
    assert TOKEN not in result.output
    sections = {each["name"]: each["checks"] for each in json.loads(result.stdout)["sections"]}
    return {check["name"]: check for check in sections["Control plane"]}


def subscriptions(folder: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "queue.db")) as database:
        return set(database.execute("SELECT topic, audience FROM subscriptions"))


@pytest.mark.usefixtures("ant")
def test_all_of_a_control_plane_is_well(url: str, folder: Path, client: Client) -> None:
    before = subscriptions(folder)
    found = plane()
    assert {check["verdict"] for check in found.values()} == {"ok"}
    assert list(found) == [
        *("Address", "Answer", "Version", "Clock", "Token", "You", "Project", "Services"),
        *("Schema", "Queues", "Workers", "Messages", "Files"),
    ]
    assert found["Address"]["detail"] == f"{url}, known from XMCLOUD_URL"
    assert found["Version"]["detail"] == f"{VERSION}, as here"
    assert found["Workers"]["detail"] == "ant"
    assert found["Messages"]["detail"].startswith("through the queue and back in")
    # It leaves nothing that would fill, and nobody who would be waited for.
    assert subscriptions(folder) == before
    assert [each.worker for each in client.workers().sessions] == ["ant"]


@pytest.mark.usefixtures("ant")
def test_for_people() -> None:
    told = doctor()
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert lines[0] == "This machine"
    assert "Control plane" in lines
    assert "  ✓ Queues             high, default, low" in lines
    assert "attention" in lines[-1] or lines[-1] == "All is well."


def test_without_a_worker(folder: Path) -> None:
    before = subscriptions(folder)
    found = plane()
    assert found["Workers"]["verdict"] == "warning"
    assert found["Workers"]["remedy"] == "xmcloud worker start"
    assert found["Messages"]["detail"].startswith("not tried")
    assert subscriptions(folder) == before


@pytest.mark.usefixtures("ant")
def test_a_word_that_does_not_come(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the session of the doctor, and what listens is that of the worker."""
    (ant,) = client.workers().sessions
    elsewhere = control_subscription(ant.id)
    monkeypatch.setattr(round_trips, "control_subscription", lambda session: elsewhere)
    monkeypatch.setattr(round_trips, "_WAIT_SECONDS", 0.0)
    found = plane(ExitCode.UNWELL)
    assert found["Messages"]["verdict"] == "failed"
    assert [each.worker for each in client.workers().sessions] == ["ant"]


def as_role(url: str, monkeypatch: pytest.MonkeyPatch, project: str, role: str) -> None:
    """From now on commands carry an API token of that role."""
    body = {"name": "doctor", "role": role}
    with httpx.Client(base_url=f"{url}/v1", headers=HEADERS) as http:
        made = http.post(f"/projects/{project}/tokens", json=body).raise_for_status().json()
    monkeypatch.setenv("XMCLOUD_TOKEN", made["token"])


@pytest.mark.usefixtures("ant")
def test_who_one_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plane()["You"]["detail"] == "owner, admin everywhere"
    as_role(url, monkeypatch, "default", "member")
    found = plane()
    assert found["You"]["detail"] == "token:doctor, member in default"
    assert found["Project"]["detail"] == "default: you may launch there"
    assert found["Services"]["detail"] == "store, queue and blobs answer"


@pytest.mark.usefixtures("ant")
def test_a_viewer_may_not_launch(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_role(url, monkeypatch, "default", "viewer")
    project = plane()["Project"]
    assert project["verdict"] == "warning"
    assert project["remedy"] == (
        "An admin says: xmcloud member set token:doctor member --project default"
    )


@pytest.mark.usefixtures("ant")
def test_a_project_that_is_not_one_s_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_role(url, monkeypatch, "default", "member")
    monkeypatch.setenv("XMCLOUD_PROJECT", "speech")
    assert plane(ExitCode.UNWELL)["Project"]["detail"] == "speech: you have no role there"


def test_a_project_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_PROJECT", "nowhere")
    assert plane(ExitCode.UNWELL)["Project"]["remedy"] == "xmcloud project create nowhere"


def test_a_worker_s_token(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_role(url, monkeypatch, "*", "worker")
    found = plane()
    assert found["Project"]["detail"] == "none: a worker takes the jobs of all of them"
    assert "Queues" not in found


def submit(client: Client, pool: str) -> str:
    spec = JobSpec(executable=Command(command=("train",)), pool=pool)
    job = NewJob(name="train", spec=spec)
    experiment = client.create_experiment(NewExperiment(title="sweep")).id
    client.add_units(experiment, NewUnits(units=(NewUnit(jobs=(job,)),)))
    return experiment


@pytest.mark.usefixtures("ant")
def test_a_job_that_waits_for_nobody(client: Client) -> None:
    experiment = submit(client, "gpu")
    try:
        found = plane()
    finally:
        client.stop_experiment(experiment, Stop())
    assert found["Queue default"]["verdict"] == "warning"
    assert found["Queue default"]["detail"] == (
        f"job {experiment[:8]}/1 waits because no worker of pool gpu is connected"
    )
    assert "xmcloud worker start --pool gpu" in found["Queue default"]["remedy"]


@pytest.mark.usefixtures("ant")
def test_a_job_that_is_served_and_a_queue_that_is_paused(client: Client) -> None:
    experiment = submit(client, "local")
    client.pause_queue("low", Act())
    try:
        found = plane()
    finally:
        client.stop_experiment(experiment, Stop())
        client.resume_queue("low", Act())
    assert found["Queue default"]["verdict"] == "ok"
    assert found["Queue default"]["detail"].startswith("1 job waits")
    assert found["Queue low"]["verdict"] == "warning"
    assert found["Queue low"]["remedy"] == "xmcloud queue resume low"


@pytest.mark.parametrize("token", ["wrong", "ö", "two\nlines"])
def test_a_token_that_is_not_accepted(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_TOKEN", token)
    found = plane(ExitCode.UNWELL)
    assert list(found)[-1] == "Token"
    assert found["Token"]["verdict"] == "failed"
    assert "XMCLOUD_TOKEN" in found["Token"]["remedy"]
    assert token not in json.dumps(found, ensure_ascii=False)


def test_a_token_for_the_control_plane_of_this_machine(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "control.json").write_text(json.dumps({"url": url}))
    monkeypatch.delenv("XMCLOUD_URL")
    monkeypatch.setenv("XMCLOUD_TOKEN", "of-another")
    assert plane(ExitCode.UNWELL)["Token"]["remedy"] == "unset XMCLOUD_TOKEN"


def test_a_machine_with_a_worker_alone(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = home / "worker.json"
    settings.write_text(json.dumps({"url": url}))
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o600)
    monkeypatch.delenv("XMCLOUD_URL")
    monkeypatch.delenv("XMCLOUD_TOKEN")
    found = plane()
    assert found["Address"]["detail"] == f"{url}, known from {settings}"
    assert found["Token"]["detail"] == f"accepted, from {home / 'token'}"


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("XMCLOUD_URL", f"http://127.0.0.1:{port}")
    found = plane(ExitCode.UNWELL)
    assert list(found) == ["Address", "Answer"]
    assert "does not answer" in found["Answer"]["detail"]
    assert found["Answer"]["remedy"].endswith(f"curl -i http://127.0.0.1:{port}/v1/health")


def test_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_FIRST_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("XMCLOUD_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        found = plane(ExitCode.UNWELL)
    assert found["Answer"]["detail"].endswith("does not answer within 0.1 s")


Answers = Callable[[str], tuple[int, bytes]]


class UnixServer(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(str(self.server_address))


@contextmanager
def answering(answers: Answers, date: str = "", unix: Path | None = None) -> Iterator[str]:
    """The address of a server that answers GET as it is told."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return date or super().date_time_string(timestamp)

        def address_string(self) -> str:
            return "client"

        def log_message(self, *args: Any) -> None:
            pass

    server: HTTPServer
    if unix:
        server = UnixServer(str(unix), Handler)  # type: ignore[arg-type]
        address = f"unix://{unix}"
    else:
        server = HTTPServer(("127.0.0.1", 0), Handler)
        address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_one_of_an_old_version_with_a_clock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def old(path: str) -> tuple[int, bytes]:
        return (200, b'{"version": "0.0.1"}') if path == "/v1/health" else (200, b'{"lines": []}')

    with answering(old, date="Tue, 01 Jan 2030 00:00:00 GMT") as address:
        monkeypatch.setenv("XMCLOUD_URL", address)
        found = plane(ExitCode.UNWELL)
    assert found["Version"]["remedy"] == "pip install xmcloud==0.0.1"
    assert found["Clock"]["verdict"] == "failed"
    assert found["Answer"]["detail"].endswith("answers with something else than this version")


def test_a_server_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(lambda path: (404, b"<html>")) as address:
        monkeypatch.setenv("XMCLOUD_URL", address)
        found = plane(ExitCode.UNWELL)
    assert "answers HTTP 404, not as xmcloud does" in found["Answer"]["detail"]


@pytest.mark.parametrize(
    ("body", "verdict", "detail"),
    [
        (b'{"Version": "27.1"}', Verdict.OK, "Docker 27.1 at unix://"),
        (
            b'{"Version": "4.3", "Components": [{"Name": "Podman Engine"}]}',
            *(Verdict.OK, "Podman 4.3 at unix://"),
        ),
        (b"[]", Verdict.WARNING, "no engine answers at unix://"),
        (b"hello", Verdict.WARNING, "no engine answers at unix://"),
    ],
)
def test_container_engines(body: bytes, verdict: Verdict, detail: str, tmp_path: Path) -> None:
    with answering(lambda path: (200, body), unix=tmp_path / "engine.sock") as address:
        (check,) = check_engine(address, {})
    assert check.verdict is verdict
    assert check.detail.startswith(detail)
    assert bool(check.remedy) == (verdict is not Verdict.OK)


def test_no_container_engine(tmp_path: Path) -> None:
    podman = tmp_path / "podman" / "podman.sock"
    podman.parent.mkdir()
    podman.touch()
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/none", "XDG_RUNTIME_DIR": str(tmp_path)}
    (check,) = check_engine("", nowhere)
    assert check.verdict is Verdict.WARNING
    assert check.remedy == f"export DOCKER_HOST=unix://{podman}"
    (elsewhere,) = check_engine("ssh://box", {})
    assert elsewhere.verdict is Verdict.OK
