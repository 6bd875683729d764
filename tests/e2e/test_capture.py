"""Two lines in a plain script: what it did is an experiment, which runs again elsewhere."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.stack import Stack, lives, until
from tests.unit.runs.gits import Person, applied, tree, write
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Act, CloneExperiment, Enqueue, Stop
from xmcloud.core.specs import GitSource, PythonSource
from xmcloud.xm_cloud.client import Client

TRAIN = b"""
import xmcloud
import argparse, pathlib
run = xmcloud.init(title="capture me", project="tests")
import helper
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--resume", action="store_true")
parser.add_argument("--name")
for step in range(100): run.log(step, loss=1 / (step + 1))
run.summary["best"] = 0.01
run.artifact("data", "data.bin")
run.text("note", "hello")
run.input("numbers", "data.bin")
print(helper.WHO, vars(parser.parse_args()), len(pathlib.Path("data.bin").read_bytes()))
"""

GATE = b"""
import os, pathlib, sys, time
import xmcloud
run = xmcloud.init()
config = run.parameters({"lr": 0.1, "one": "1", "nothing": None, "names": [None], "on": False})
run.log(loss=0.5)
print("waits")
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()}\\n")
while not pathlib.Path("go").exists(): time.sleep(0.02)
print("then")
"""

FILES = {"train.py": TRAIN, "helper.py": b"WHO = 'committed'\n", "data.bin": b"\0" * 10}


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    return Person(tmp_path)


def script(
    stack: Stack, ann: Person, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=stack.environment | ann.environment | {"XMCLOUD_HOME": str(stack.home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def recorded(said: str) -> str:
    """The experiment that the script's stderr names."""
    found = re.search(r"^xmcloud: recorded as experiment ([a-z2-7]{16})$", said, re.MULTILINE)
    assert found, said
    return found[1]


def test_a_script_is_captured_and_runs_again_with_other_parameters(
    embedded: Stack, ann: Person, tmp_path: Path
) -> None:
    embedded.up()
    repository = ann.repository(tmp_path / "work", FILES)
    write(repository, {"pushed.txt": b"not\n"})
    ann.commit(repository)
    write(repository, {"helper.py": b"WHO = 'edited'\n", "data.bin": os.urandom(3000)})
    write(repository, {"new/note.txt": b"untracked\r\n", "tool.sh": b"echo\n"})
    (repository / "tool.sh").chmod(0o755)

    done = script(embedded, ann, repository, "train.py", "--lr=0.5", "--resume", "--name=1")
    said = "edited {'lr': 0.5, 'resume': True, 'name': '1'} 3000\n"
    assert (done.stdout, done.returncode) == (said, 0)
    experiment = recorded(done.stderr)
    (job,) = embedded.ended(experiment)
    about = embedded.client.experiment(experiment).experiment
    assert (about.title, about.tags) == ("capture me", ("tests",))
    assert "train.py --lr=0.5 --resume --name=1" in about.notes
    assert (job.state, job.reason.message) == (JobState.COMPLETED, "exited with code 0")
    assert [(a.name, a.value) for a in job.spec.arguments] == [
        ("lr", 0.5),
        ("resume", True),
        ("name", "1"),
    ]
    assert job.results["summary"] == {"best": 0.01}
    assert job.results["series"] == {"loss": {"last": 0.01, "min": 0.01, "max": 1.0, "count": 100}}
    data = (repository / "data.bin").read_bytes()
    assert_stored(embedded.client, job, {"data": data, "note": b"hello", "inputs/numbers": data})
    assert said in embedded.whole_log(job).decode()
    source = job.spec.executable
    assert isinstance(source, GitSource)
    assert (source.directory, source.entrypoint) == (".", ("python", "train.py"))
    assert source.commit == ann(repository, "rev-parse", "HEAD").strip()
    assert_the_same_tree(embedded.client, ann, source, repository, tmp_path)

    edits = CloneExperiment(arguments={"lr": 0.25, "resume": False, "name": None})
    again = embedded.client.clone_experiment(experiment, edits).id
    embedded.client.enqueue_experiment(again, Enqueue())
    (rerun,) = embedded.ended(again)
    log = embedded.whole_log(rerun).decode()
    assert rerun.state is JobState.COMPLETED, log
    assert_stored(embedded.client, rerun, {"data": data, "note": b"hello", "inputs/numbers": data})
    assert [rerun.results[n] for n in ("summary", "series")] == [
        job.results[n] for n in ("summary", "series")
    ]
    assert "edited {'lr': 0.25, 'resume': False, 'name': None} 3000\n" in log


def assert_stored(client: Client, job: Job, files: dict[str, bytes]) -> None:
    blobs = job.results["blobs"]
    assert isinstance(blobs, dict)
    assert blobs.keys() == {*files, "points", "names"}
    for name, content in files.items():
        assert client.get_blob(str(blobs[name])) == content


def assert_the_same_tree(
    client: Client, ann: Person, source: GitSource, repository: Path, folder: Path
) -> None:
    """From the remote, the bundle and the diff alone."""
    assert source.bundle is not None
    assert source.diff is not None
    bundle = folder / "bundle"
    bundle.write_bytes(client.get_blob(source.bundle))
    bare = folder / "other.git"
    ann(folder, "clone", "-q", "--bare", source.repository, str(bare))
    ann(bare, "fetch", "-q", str(bundle), "HEAD:refs/heads/captured")
    clone = applied(bare, source.commit, client.get_blob(source.diff), folder / "again")
    found = {n: c for n, c in tree(clone).items() if not n.startswith(".xmcloud-local/")}
    expected = {n: c for n, c in tree(repository).items() if "__pycache__" not in n}
    assert found == expected


def test_how_a_script_ends_is_how_its_job_ends(
    embedded: Stack, ann: Person, tmp_path: Path
) -> None:
    embedded.up()
    folder = tmp_path / "plain"
    write(folder, {"fail.py": b"import xmcloud\nxmcloud.init()\n{}['no such key']\n"})
    done = script(embedded, ann, folder, "fail.py")
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'no such key'\n") or "KeyError" in done.stderr
    (job,) = embedded.ended(recorded(done.stderr))
    assert (job.state, job.reason.message) == (JobState.FAILED, "KeyError: 'no such key'")
    assert isinstance(job.spec.executable, PythonSource)
    assert job.spec.executable.entrypoint == ("python", "fail.py")

    write(folder, {"gate.py": GATE})
    stopped = started(embedded, ann, folder, "one")
    until(lambda: b"waits\n" in embedded.whole_log(stopped.job), "what it printed is known")
    embedded.client.stop_job(stopped.job.id, Stop(by="ann"))
    assert stopped.process.wait(60) == -signal.SIGTERM
    (job,) = embedded.ended(stopped.job.experiment_id)
    assert (job.state, job.reason.message) == (JobState.STOPPED, "stopped by ann")
    own = {"lr": 0.1, "one": "1", "nothing": None, "names": [None], "on": False}
    assert {a.name: a.value for a in job.spec.arguments if a.name} == own

    killed = started(embedded, ann, folder, "two")
    killed.process.kill()
    killed.process.wait(60)
    (job,) = embedded.ended(killed.job.experiment_id)
    assert job.state is JobState.FAILED
    assert "without a word" in job.reason.message
    assert len(job.attempts) == 1
    assert b"waits\n" in embedded.whole_log(job)
    assert job.results["series"] == {"loss": {"last": 0.5, "min": 0.5, "max": 0.5, "count": 1}}


def test_what_a_run_left_is_recovered_when_its_reporter_died_too(
    embedded: Stack, ann: Person, tmp_path: Path
) -> None:
    embedded.up()
    folder = tmp_path / "plain"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    embedded.environment["TMPDIR"] = str(temporary)
    write(folder, {"gate.py": GATE, "quick.py": b"import xmcloud\nxmcloud.init()\n"})
    dead = started(embedded, ann, folder, "one")
    (reporter,) = reporters(temporary)
    reporter.kill()
    alive = script(embedded, ann, folder, "quick.py")
    assert "left behind" not in alive.stderr
    dead.process.kill()
    dead.process.wait(60)
    done = script(embedded, ann, folder, "quick.py")
    said = re.search(r"of experiment (\w+), what was left .* stored: blob (\w+)", done.stderr)
    assert said, done.stderr
    assert said[1] == dead.job.experiment_id
    results = json.loads(embedded.client.get_blob(said[2]))
    assert results["series"]["loss"]["count"] == 1
    assert said[2] in embedded.client.experiment(said[1]).experiment.notes
    assert list(temporary.glob("xmcloud-run-*")) == []


def reporters(temporary: Path) -> list[psutil.Process]:
    """Those of scripts whose temporary folder that is."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if "xmcloud.runs.reporter" in (process.info["cmdline"] or ())
        and process.info["environ"].get("TMPDIR") == str(temporary)
    ]


def test_a_run_is_recorded_while_its_queue_is_paused(
    embedded: Stack, ann: Person, tmp_path: Path
) -> None:
    embedded.up()
    embedded.client.pause_queue("default", Act())
    write(tmp_path / "plain", {"quick.py": b"import xmcloud\nxmcloud.init()\n"})
    done = script(embedded, ann, tmp_path / "plain", "quick.py")
    (job,) = embedded.ended(recorded(done.stderr))
    assert job.state is JobState.COMPLETED


class Running:
    """A script that waits at its gate, and its job."""

    def __init__(self, process: "subprocess.Popen[bytes]", job: Job) -> None:
        self.process, self.job = process, job


def started(stack: Stack, ann: Person, folder: Path, name: str) -> Running:
    """Returns when the control plane knows that it runs."""
    before = {e.experiment.id for e in stack.client.experiments().experiments}
    process = subprocess.Popen(
        [sys.executable, "gate.py", name],
        cwd=folder,
        env=stack.environment | ann.environment,
        stderr=subprocess.DEVNULL,
    )
    found: list[Job] = []

    def runs() -> bool:
        assert process.poll() is None
        for each in stack.client.experiments().experiments:
            if each.experiment.id not in before:
                found[:] = stack.client.jobs_of(each.experiment.id)
        return bool(found) and found[0].state is JobState.RUNNING

    until(runs, "the script runs as a job")
    assert lives(int((folder / name).read_text()))
    return Running(process, found[0])


def test_a_script_without_a_control_plane_runs_as_ever(
    embedded: Stack, ann: Person, tmp_path: Path
) -> None:
    write(tmp_path / "plain", {"quick.py": b"import xmcloud\nxmcloud.init()\nprint('done')\n"})
    done = script(embedded, ann, tmp_path / "plain", "quick.py")
    assert (done.stdout, done.returncode) == ("done\n", 0)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("xmcloud: this run is not recorded: No control plane is known")
    stack = embedded.environment | {"XMCLOUD_URL": "http://127.0.0.1:9", "XMCLOUD_TOKEN": "t"}
    embedded.environment = stack
    done = script(embedded, ann, tmp_path / "plain", "quick.py")
    assert (done.stdout, done.returncode) == ("done\n", 0)
    assert "xmcloud: this run is not recorded: The control plane at http" in done.stderr
    assert done.stderr.count("\n") == 1
