"""A backup: everything is exported, lost, and imported, by the command line."""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from tests.e2e.stack import Stack, Trace
from xmcloud.cli.main import cli
from xmcloud.core.protocol import Enqueue, NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec


def draft(stack: Stack, folder: Path) -> str:
    """The id of an experiment with a job that nobody enqueued."""
    experiment = stack.client.create_experiment(NewExperiment(title="for later")).id
    command = Command(command=("sh", "-c", "echo ran"), directory=str(folder))
    job = NewJob(name="job", spec=JobSpec(executable=command, pool="local"), queue=None)
    stack.client.add_units(experiment, NewUnits(units=(NewUnit(jobs=(job,)),)))
    return experiment


def answers(stack: Stack, done: str) -> list[object]:
    """What people are told of what is over."""
    runner = CliRunner(env=stack.environment)
    asked = [("list", "--json"), ("show", done, "--json"), ("logs", f"{done}/1")]
    listed, *told = [runner.invoke(cli, words, catch_exceptions=False).stdout for words in asked]
    return [[each["experiment"] for each in json.loads(listed)["experiments"]], *told]


def test_a_backup_brings_everything_back(embedded: Stack, tmp_path: Path) -> None:
    """And what was running when it was made runs again."""
    stack, file, trace = embedded, tmp_path / "backup.tar", Trace(tmp_path)
    stack.up(lease=3)
    done = stack.submit(tmp_path, "echo out; echo err >&2; exit 3")
    stack.ended(done)
    later = draft(stack, tmp_path)
    running = stack.submit(tmp_path, trace.script())
    trace.until("start", 1)
    told = answers(stack, done)
    assert told[2] == "out\nerr\n"
    stack("export", str(file))
    stack.client.close()
    stack("down")
    shutil.rmtree(stack.home)
    stack.up(lease=3)
    assert "Imported 3 experiments with 3 jobs and" in stack("import", str(file)).stdout
    assert answers(stack, done) == told
    trace.open()
    (again,) = stack.ended(running)
    assert (again.state, again.losses) == ("completed", 1)
    stack.client.enqueue_experiment(later, Enqueue(by="ada"))
    (ran,) = stack.ended(later)
    assert (ran.state, stack.whole_log(ran)) == ("completed", b"ran\n")
