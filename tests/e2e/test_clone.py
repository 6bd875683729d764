"""A recorded run and a launched job run again with one change; `repro` says whether it was that."""

import json
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.e2e.test_capture import recorded, script
from tests.unit.runs.gits import Person, write
from xmcloud.core.models import Job, JobState
from xmcloud.core.specs import GitSource

TRAIN = b"""
import xmcloud
import argparse
run = xmcloud.init(title="rates")
import helper
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--resume", type=str)
print(helper.WHO, vars(parser.parse_args()))
"""


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    return Person(tmp_path)


def ended(stack: Stack, experiment: str) -> tuple[Job, str]:
    """Its only job, which completed, and its log."""
    (job,) = stack.ended(experiment)
    log = stack.whole_log(job).decode()
    assert job.state is JobState.COMPLETED, log
    return job, log


def test_a_recorded_run_again_with_one_change(embedded: Stack, ann: Person, tmp_path: Path) -> None:
    embedded.up()
    embedded.environment |= ann.environment
    files = {"train.py": TRAIN, "helper.py": b"WHO = 'committed'\n"}
    repository = ann.repository(tmp_path / "work", files)
    ann(repository, "push", "-q", "origin", "HEAD:refs/heads/stable")
    write(repository, {"helper.py": b"WHO = 'edited'\n"})
    done = script(embedded, ann, repository, "train.py", "--lr=0.5", "--resume=1")
    assert done.stdout == "edited {'lr': 0.5, 'resume': '1'}\n"
    original = recorded(done.stderr)
    embedded.ended(original)

    cloned = embedded("clone", original, "--set", "lr=0.25", "--queue", "high")
    assert "parameters: lr: 0.5 -> 0.25\n" in cloned.stderr
    again = embedded.json("list")["experiments"][0]["experiment"]["id"]
    job, log = ended(embedded, again)
    assert "edited {'lr': 0.25, 'resume': '1'}\n" in log
    assert job.queue == "high"
    told = json.loads(embedded("diff", original, again, "--json", status=1).stdout)
    (pair,) = told["pairs"]
    assert ("lr", 0.5, 0.25) in [(d["name"], d["a"], d["b"]) for d in pair["differences"]]

    # What is not committed stays behind, but not the package that the script imports.
    stable = embedded.json("clone", again, "--commit", "stable", "--queue", "default", status=0)
    job, log = ended(embedded, stable["id"])
    assert "committed {'lr': 0.25, 'resume': '1'}\n" in log
    assert isinstance(job.spec.executable, GitSource)
    assert job.spec.executable.commit == ann(repository, "rev-parse", "HEAD").strip()
    assert stable["cloned_from"] == again
    assert f"Cloned from  {job.cloned_from}" in embedded("show", job.id).stdout


def test_a_job_is_reproduced(embedded: Stack, tmp_path: Path) -> None:
    embedded.up()
    original = embedded.submit(tmp_path, 'echo "{\\"loss\\": $$}" > "$XMCLOUD_RESULTS"')
    embedded.ended(original)
    done = embedded("repro", original)
    assert f"{original} is reproduced.\n" in done.stderr
    assert "loss" in done.stdout
    embedded("repro", original, "--results", status=1)
    marked = embedded.submit(tmp_path, "mkdir marked")
    embedded.ended(marked)
    done = embedded("repro", marked, status=1)
    assert "outcome (state, exit code)" in done.stderr


def test_who_stops_waiting_leaves_the_copy_running(embedded: Stack, tmp_path: Path) -> None:
    embedded.up()
    original = embedded.submit(tmp_path, "until test -e go; do sleep 0.1; done")
    terminal = embedded.on_terminal("repro", original)
    terminal.until_shown("waits in queue default")
    terminal.interrupt()
    assert terminal.end() == 130, terminal.text
    assert "goes on. Compare it later: xmcloud diff" in terminal.text
    (tmp_path / "go").touch()
    copy = embedded.json("list")["experiments"][0]["experiment"]
    assert copy["cloned_from"] == original
    ended(embedded, copy["id"])
