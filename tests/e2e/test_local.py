"""`xmcloud up`, `down` and `status` with real processes in a home of their own."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from xmcloud.local.processes import MARK_VARIABLE, Processes, ProcessRecord, free_port, members


class Machine:
    """Runs the command line with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("XMCLOUD_")
        } | {"XMCLOUD_HOME": str(home), "XMCLOUD_CACHE": str(home / "cache")}

    def __call__(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "xmcloud.cli", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status).stdout)

    def parts(self) -> dict[str, Any]:
        return {part["name"]: part for part in self.json("status")["parts"]}

    def records(self) -> dict[str, ProcessRecord]:
        return {record.name: record for record in Processes(self.home).records()}

    @property
    def url(self) -> str:
        url: str = json.loads((self.home / "control.json").read_text())["url"]
        return url


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "home")
    try:
        yield made
    finally:
        marks = {record.mark for record in Processes(made.home).records()}
        made("down")
        assert [left for mark in marks for left in _marked(mark)] == []


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK_VARIABLE) == mark and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def _kill(record: ProcessRecord) -> None:
    process = psutil.Process(record.pid)
    os.kill(record.pid, signal.SIGKILL)
    process.wait(10)


def test_up_and_down(machine: Machine) -> None:
    machine.home.mkdir()
    stale = {"url": f"http://127.0.0.1:{free_port()}", "profile": "embedded"}
    (machine.home / "control.json").write_text(json.dumps(stale))

    started = machine("up")
    assert "Started: control-plane, worker" in started.stdout
    assert machine.url in started.stdout
    assert str(machine.home / "logs") in started.stdout
    assert stat.S_IMODE(machine.home.stat().st_mode) == 0o700
    assert stat.S_IMODE((machine.home / "token").stat().st_mode) == 0o600
    status = machine.json("status")
    assert status["url"] == machine.url
    assert {part["name"]: part["state"] for part in status["parts"]} == {
        "control-plane": "running",
        "worker": "running",
    }
    assert [queue["queue"]["name"] for queue in status["queues"]] == ["high", "default", "low"]
    (session,) = machine.json("worker", "list")["sessions"]
    assert (session["worker"], session["pool"]) == ("local", "local")

    records, url = machine.records(), machine.url
    assert "Stopped: worker, control-plane" in machine("down").stdout
    assert [left for record in records.values() for left in members(record)] == []
    assert not (machine.home / "control.json").exists()
    assert machine.json("down") == {"stopped": []}
    assert machine.json("status", status=4)["parts"] == []

    machine("up")
    assert machine.url == url


def test_down_before_anything_leaves_no_trace(machine: Machine) -> None:
    assert "Nothing was running" in machine("down").stdout
    assert not machine.home.exists()


def test_a_token_that_others_can_read_is_refused(machine: Machine) -> None:
    machine.home.mkdir()
    token = machine.home / "token"
    token.write_text("a token of our own")
    token.chmod(0o640)
    assert f"chmod 600 {token}" in machine("up", status=5).stderr
    assert machine.records() == {}
    token.chmod(0o600)
    machine("up")
    assert token.read_text() == "a token of our own"
    assert machine.json("list")["experiments"] == []


def test_up_again_keeps_what_runs_and_replaces_what_died(machine: Machine) -> None:
    machine("up")
    first, url = machine.records(), machine.url
    assert "It runs already" in machine("up").stdout
    assert machine.records() == first

    _kill(first["worker"])
    assert machine.parts()["worker"]["state"] == "dead"
    assert "Started: worker\n" in machine("up").stdout
    second = machine.records()
    assert second["control-plane"] == first["control-plane"]

    _kill(second["control-plane"])
    assert "does not answer" in machine("list", status=4).stderr
    assert "Started: control-plane\n" in machine("up").stdout
    assert machine.records()["worker"] == second["worker"]
    assert machine.url == url
    assert machine("run", "--", "true").stdout == ""


def test_two_at_once_share_one_control_plane(machine: Machine) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: machine("up"), range(2)))
    outputs = sorted(each.stdout.splitlines()[0] for each in done)
    assert outputs == ["It runs already.", "Started: control-plane, worker"]
    assert len(machine.json("worker", "list")["sessions"]) == 1


def test_a_port_that_is_taken_and_other_wishes_that_cannot_be_met(machine: Machine) -> None:
    machine.home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = machine("up", "--port", port, status=3)
        assert f"Port {port} of 127.0.0.1 is taken" in refused.stderr
        assert machine.records() == {}
        (machine.home / "port").write_text(port)
        machine("up")
        assert not machine.url.endswith(f":{port}")
    refused = machine("up", "--port", port, status=3)
    assert f"runs already, on port {machine.url.rpartition(':')[2]}" in refused.stderr
    refused = machine("up", "--emulators", status=3)
    assert "runs already, without emulators" in refused.stderr
    assert "xmcloud down" in refused.stderr


def test_a_damaged_database_is_told_as_the_control_plane_tells_it(machine: Machine) -> None:
    machine.home.mkdir()
    store = machine.home / "store.db"
    store.write_bytes(b"this is no database" * 1000)
    refused = machine("up", status=4)
    assert f"The database {store} cannot be read" in refused.stderr
    assert "Restore it from a backup" in refused.stderr
    assert machine.records() == {}


def test_a_command_runs_here_and_ends_as_it_ends(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Must not stand in for the control plane's own.
    (tmp_path / "uvicorn.py").write_text("raise SystemExit('not me')")
    ran = machine("run", "--env", "WHO=me", "--", "sh", "-c", "echo $WHO in $PWD; exit 7", status=7)
    assert ran.stdout == f"me in {tmp_path}\n"
    assert "Starting the control plane (stop it with: xmcloud down)" in ran.stderr
    assert "exited with code 7" in ran.stderr
    ran = machine("run", "--json", "--title", "again", "--", "true")
    job = json.loads(ran.stdout)
    assert job["state"] == "completed"
    assert "Starting" not in ran.stderr
    titles = [each["experiment"]["title"] for each in machine.json("list")["experiments"]]
    assert titles == ["again", "sh -c 'echo $WHO in $PWD; exit 7'"]
    assert machine("logs", job["experiment_id"][:12]).stdout == ""


def test_another_control_plane_that_is_named_is_left_alone(machine: Machine) -> None:
    machine.environment |= {"XMCLOUD_URL": "http://127.0.0.1:9", "XMCLOUD_TOKEN": "secret"}
    assert "http://127.0.0.1:9" in machine("run", "--", "true", status=4).stderr
    assert not machine.home.exists()


@pytest.mark.emulator
@pytest.mark.usefixtures("emulator_installation")
def test_the_same_on_the_emulators(machine: Machine) -> None:
    machine("up", "--emulators")
    names = {"firestore", "pubsub", "storage", "control-plane", "worker"}
    assert {name: part["state"] for name, part in machine.parts().items()} == dict.fromkeys(
        names, "running"
    )
    assert machine("run", "--", "echo", "hello").stdout == "hello\n"
    first = machine.records()
    assert "It runs already" in machine("up").stdout

    _kill(first["pubsub"])
    assert "Started: " in machine("up").stdout
    second = machine.records()
    assert second.keys() == names
    assert all(second[name] != first[name] for name in names)
    assert machine("run", "--", "echo", "again").stdout == "again\n"
