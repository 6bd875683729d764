"""The commands about workers, over a real control plane; sessions as a worker opens them."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.functions.commands.running import answer, xmcloud
from tests.functions.xm_cloud.server import HEADERS, TOKEN
from xmcloud.cli.complete import complete_workers
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.core.models import Execution, Job, JobState, Session
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec
from xmcloud.core.worker_protocol import Lease, SyncAnswer
from xmcloud.local.processes import Processes, alive
from xmcloud.worker.settings import load_settings
from xmcloud.xm_cloud.client import Client

GPUS = ("0 NVIDIA A100", "1 NVIDIA A100")
RESOURCES = {"cpu": 8, "memory": 32e9}


@pytest.fixture
def worker(url: str) -> Iterator["Worker"]:
    with httpx.Client(base_url=f"{url}/v1", headers=HEADERS) as http:
        worker = Worker(http)
        yield worker
        worker.close()


class Worker:
    """Says what a worker named ant says, and runs nothing."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        told = {"slots": 2, "gpus": GPUS, "resources": RESOURCES, "host": "box", "version": "1.2"}
        self.session: Session = Lease.model_validate_json(
            self._post("/workers/ant/sessions", told)
        ).session

    def _post(self, path: str, body: Any) -> bytes:
        return self._http.post(path, json=body).raise_for_status().content

    def sync(self, **body: Any) -> SyncAnswer:
        path = f"/sessions/{self.session.id}/sync"
        return SyncAnswer.model_validate_json(self._post(path, body))

    def claim(self, job: str) -> Job:
        claim = {"slots": 2, "queues": ["default"], "resources": RESOURCES, "only": job}
        (mine,) = self.sync(claim=claim).jobs
        return mine

    def close(self) -> None:
        self._post(f"/sessions/{self.session.id}/close", {})


def running_job(client: Client, worker: Worker, execution: Execution | None = None) -> Job:
    spec = JobSpec(executable=Command(command=("train",)), resources={"cpu": 2, "memory": 4e9})
    experiment = client.create_experiment(NewExperiment(title="sweep")).id
    units = (NewUnit(jobs=(NewJob(name="train", spec=spec),)),)
    (made,) = client.add_units(experiment, NewUnits(units=units))
    job = worker.claim(made.id)
    at = datetime.now(UTC).isoformat()
    ran = execution.model_dump(mode="json") if execution else None
    started = {"event": "started", "job_id": job.id, "fence": 1, "at": at, "execution": ran}
    worker.sync(reports=[started])
    return job


def used(**series: float) -> dict[str, Any]:
    told = {name.replace("_", "-"): [value, value / 2] for name, value in series.items()}
    return {"start": "2030-01-01T00:00:00Z", "step_seconds": 5.0, "series": told}


def test_workers_with_what_they_do(client: Client, worker: Worker) -> None:
    heading, row = xmcloud("worker", "list").stdout.splitlines()
    assert heading.split("  ")[0] == "WORKER"
    assert "idle 0/2" in row
    assert "2 x NVIDIA A100" in row
    running_job(client, worker)
    assert "running 1/2" in xmcloud("worker", "list").stdout
    assert [each["worker"] for each in answer("worker", "list")["sessions"]] == ["ant"]


def test_no_worker_at_all() -> None:
    told = xmcloud("worker", "list")
    assert (told.stdout, "xmcloud worker start" in told.stderr) == ("", True)
    assert answer("worker", "list") == {"sessions": []}
    refused = xmcloud("worker", "show", "ant", status=ExitCode.REFUSED).stderr
    assert "No worker is connected. Start one: xmcloud worker start" in refused


def test_a_worker_as_it_is(client: Client, worker: Worker) -> None:
    job = running_job(client, worker, Execution(argv=("train",), gpus=("1 NVIDIA A100",)))
    worker.sync(statistics=used(cpu_percent=80, memory_bytes=16e9))
    shown = xmcloud("worker", "show", "ant").stdout
    fields = dict(line.split("  ", 1) for line in shown.split("\n\n")[0].splitlines())
    told = {name: value.strip() for name, value in fields.items()}
    assert told["State"] == "running 1/2"
    assert told["Resources"] == "cpu 6 of 8 free, memory 28 GB of 32 GB free"
    assert (told["Host"], told["Version"]) == ("box", "1.2")
    assert told["GPUs"] == "0 NVIDIA A100, 1 NVIDIA A100"
    held = shown.split("\n\n")[1].splitlines()[1]
    assert held.split()[:3] == [job.id[:8], f"{job.experiment_id[:8]}/1", "train"]
    assert held.endswith("1     2 cpu, 4.0 GB memory")
    cpu, memory = shown.split("\n\n")[2].splitlines()[1:]
    assert cpu.split() == ["CPU", "▇▄", "40", "%", "40", "%", "80", "%"]
    assert memory.split()[:4] == ["Memory", "▅▃", "8.0", "GB"]
    document = answer("worker", "show", "ant")
    assert document["jobs"][0]["id"] == job.id
    assert document["statistics"]["series"]["cpu-percent"] == [80, 40]


def test_draining_and_resuming(client: Client, worker: Worker) -> None:
    assert "takes no more jobs" in xmcloud("worker", "drain", "ant").stdout
    assert "drained" in xmcloud("worker", "list").stdout
    assert xmcloud("worker", "resume", "ant").stdout == "Worker ant takes jobs.\n"
    running_job(client, worker)
    told = xmcloud("worker", "drain", "ant").stdout
    assert told.startswith("Worker ant finishes 1 job and takes no more.")
    assert "draining 1/2" in xmcloud("worker", "list").stdout
    assert answer("worker", "resume", "ant")["wanted"] == "run"


def test_stopping(client: Client, worker: Worker) -> None:
    running_job(client, worker)
    told = xmcloud("worker", "stop", "ant").stdout
    assert told == "Worker ant is told to stop, which gives 1 job back to their queues.\n"
    assert "stopping 1/2" in xmcloud("worker", "list").stdout
    assert answer("worker", "stop", "ant")["wanted"] == "stop"
    assert worker.sync().wanted == "stop"


@pytest.mark.parametrize("command", ["show", "drain", "resume", "stop"])
def test_a_worker_that_is_not_connected(worker: Worker, command: str) -> None:
    refused = xmcloud("worker", command, "bee", status=ExitCode.REFUSED).stderr
    assert refused == "Error: There is no connected worker 'bee'. Connected: ant.\n"
    problem = answer("worker", command, "bee", status=ExitCode.REFUSED)
    assert (problem["status"], problem["remedy"]) == (404, "Connected: ant.")


def test_names_are_completed(worker: Worker) -> None:
    from xmcloud.cli.worker_orders import drain

    context = drain.make_context("drain", ["x"])
    found = {text: complete_workers(context, drain.params[0], text) for text in ("a", "b")}
    assert [[item.value for item in items] for items in found.values()] == [["ant"], []]
    assert drain.params[0].shell_complete(context, "an")[0].value == "ant"


def test_a_job_shows_what_really_ran_and_what_it_used(client: Client, worker: Worker) -> None:
    packages = b"numpy==2.0\nrequests==2.32\n"
    digest = hashlib.sha256(packages).hexdigest()
    client.put_blob(digest, packages)
    execution = Execution(
        argv=("python", "-m", "train", "a b"),
        directory="/job",
        code="git:abc",
        python="3.12.1",
        packages=digest,
        host="box",
        gpus=("1 NVIDIA A100",),
    )
    job = running_job(client, worker, execution)
    shown = xmcloud("show", job.id).stdout
    assert "Command    python -m train 'a b'\nDirectory  /job\nCode       git:abc\n" in shown
    assert f"Packages   2, sha256:{digest[:12]}\nHost       box\nGPUs       1 NVIDIA" in shown
    assert "MEASURED" not in shown
    told = used(cpu_core_percent=150)
    worker.sync(reports=[{"event": "measured", "job_id": job.id, "fence": 1, "statistics": told}])
    shown = xmcloud("show", job.id).stdout
    assert "CPU       █▅           0.75 cores  0.75 cores  1.50 cores" in shown


def init(*options: str, status: int = 0, typed: str = "") -> Result:
    return xmcloud("worker", "init", *options, status=status, typed=typed)


def test_set_up_without_questions(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    told = init("--yes", "--name", "ant", "--slots", "3", "--queue", "low").stdout
    assert f"ok      Control plane: {url} answers, version" in told
    assert "Start it: xmcloud worker start" in told
    for name in ("worker.json", "token"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    settings = load_settings({"home": home}, {})
    assert (settings.url, settings.name, settings.slots) == (url, "ant", 3)
    assert settings.token is not None
    assert (settings.token.get_secret_value(), settings.queues) == (TOKEN, ("low",))
    assert settings.cache == tmp_path / "cache"
    assert TOKEN not in (home / "worker.json").read_text() + told


def test_set_up_with_questions(
    url: str, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong answer is explained and asked for again."""
    for name in ("XMCLOUD_URL", "XMCLOUD_TOKEN"):
        monkeypatch.delenv(name)
    home = tmp_path / "other"
    cache = tmp_path / "c"
    wrong_token = (url, "wrong")
    name_and_pool = ("Not a name", "ant", "bee", "gpu")
    queues = ("nightly", "low, default")
    rest = ("0", "4", "x", "0,1", str(cache), "")
    typed = "\n".join([*wrong_token, "", TOKEN, *name_and_pool, *queues, *rest]) + "\n"
    told = init("--home", str(home), typed=typed)
    for problem in (
        "The token of this request is none of this control plane's.",
        "It must be a name such as gpu-2",
        "A worker named 'ant' is connected already.",
        "There is no queue 'nightly' beside default, high, low.",
        "slots is 0.",
        "'x' is no GPU",
    ):
        assert problem in told.stderr
    assert f"Start it: XMCLOUD_HOME={home} xmcloud worker start" in told.stdout
    assert json.loads((home / "worker.json").read_text()) == {
        "url": url,
        "name": "bee",
        "pool": "gpu",
        "queues": ["low", "default"],
        "slots": 4,
        "gpus": "0,1",
        "cache": str(cache),
        "checkpoints": str(home / "checkpoints"),
    }
    assert load_settings({"home": home}, {}).cache == cache
    assert (home / "token").read_text() == f"{TOKEN}\n"
    assert TOKEN not in told.output


def test_what_is_set_up_stays(tmp_path: Path) -> None:
    init("--yes", "--name", "ant", "--slots", "3")
    before = (tmp_path / "home/worker.json").read_bytes()
    again = init("--yes", "--slots", "3").stdout
    assert "A worker is set up already, and stays so" in again
    assert "  name         ant\n" in again
    refused = init("--yes", "--slots", "4", status=ExitCode.REFUSED).stderr
    assert "slots is 3 there, not 4" in refused
    assert "stays so" in init(typed="\n").stdout
    assert (tmp_path / "home/worker.json").read_bytes() == before
    assert answer("worker", "init", "--yes")["written"] is False
    second = tmp_path / "second"
    init("--name", "bee", "--slots", "1", typed=f"{second}\n" + "\n" * 20)
    assert json.loads((second / "worker.json").read_text())["name"] == "bee"


def test_another_token_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text("of something else")
    refused = init("--yes", status=ExitCode.REFUSED).stderr
    assert f"{home / 'token'} holds another token, and is kept as it is." in refused
    assert [path.name for path in home.iterdir()] == ["token"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--queue", "nightly"), "There is no queue 'nightly' beside default, high, low."),
        (("--name", "ant"), "A worker named 'ant' is connected already."),
        (("--cache", "/etc/passwd/x"), "/etc/passwd is a file."),
        (("--url", "http://127.0.0.1:9"), "http://127.0.0.1:9"),
    ],
)
def test_what_does_not_work_is_not_written(
    worker: Worker, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    refused = init("--yes", *options, status=ExitCode.USAGE)
    assert problem in refused.stderr
    assert refused.stderr.endswith("Nothing was written.\n")
    assert "fails   " in refused.stdout
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("variable", ["XMCLOUD_URL", "XMCLOUD_TOKEN"])
def test_without_questions_the_control_plane_must_be_known(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable)
    assert variable in init("--yes", status=ExitCode.USAGE).stderr


def test_a_program_gets_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    document = answer("worker", "init", "--yes", "--token-file", str(tmp_path / "token"))
    assert (document["written"], document["home"]) == (True, os.environ["XMCLOUD_HOME"])
    found = {check["name"]: check["verdict"] for check in document["checks"]}
    assert (found["Token"], found["git"], found["uv"]) == ("ok", "ok", "ok")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--queue", "low=2"), "unless with --order fair"),
        (("--order", "fair", "--queue", "low=0"), "a number above 0"),
        (("--order", "fair", "--queue", "low=much"), "a number above 0"),
        (("--hours", "someday"), "hours"),
        (("--gpus", "x"), "is no GPU"),
    ],
)
def test_a_worker_with_flags_that_cannot_be(options: tuple[str, ...], problem: str) -> None:
    assert problem in xmcloud("worker", "start", *options, status=ExitCode.USAGE).stderr


def test_a_worker_in_the_background(url: str, tmp_path: Path) -> None:
    started = answer("worker", "start", "--background", "--name", "bee", "--queue", "low")
    try:
        assert (started["name"], started["url"]) == ("bee", url)
        assert started["log"] == str(tmp_path / "home/workers/bee/logs/worker.log")
        assert "worker bee is ready" in Path(started["log"]).read_text()
        assert "idle 0/1" in xmcloud("worker", "list").stdout
        again = CliRunner().invoke(cli, ["worker", "start", "--background", "--name", "bee"])
        assert f"runs on this machine already (process {started['pid']})" in again.stderr
    finally:
        Processes(tmp_path / "home/workers/bee").stop(20)


def test_a_worker_that_does_not_get_into_the_background_says_why(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["worker", "start", "--background", "--queue", "nightly"])
    assert refused.exit_code != 0
    assert "There is no queue 'nightly'." in refused.stderr
    (folder,) = (tmp_path / "home/workers").iterdir()
    assert [record for record in Processes(folder).records() if alive(record)] == []


@pytest.mark.parametrize("queue", ["default", None], ids=["queued", "draft"])
def test_one_job_runs_here_and_its_exit_status_is_that_of_the_command(
    client: Client, queue: str | None
) -> None:
    command = Command(command=("sh", "-c", "echo out; echo err >&2; exit 3"))
    job = NewJob(name="train", queue=queue, spec=JobSpec(executable=command))
    experiment = client.create_experiment(NewExperiment(title="one")).id
    client.add_units(experiment, NewUnits(units=(NewUnit(jobs=(job,)),)))
    run = [sys.executable, "-P", "-m", "xmcloud.cli", "worker", "run", f"{experiment}/1"]
    said = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60)
    assert (said.returncode, "out\nerr\n" in said.stdout) == (3, True), said.stderr
    (ran,) = client.jobs_of(experiment)
    assert (ran.state, ran.reason.exit_code) == (JobState.FAILED, 3)
    assert client.workers().sessions == []


def test_a_job_that_is_not_there_does_not_run() -> None:
    refused = xmcloud("worker", "run", "zzzzzzzzzzzzzzzz", status=ExitCode.REFUSED).stderr
    assert "There is no experiment or job" in refused
