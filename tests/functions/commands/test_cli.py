"""The commands over a real control plane; no worker runs, so jobs wait where they are put."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.functions.commands.running import answer, xmcloud
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Argument, Command, JobSpec
from xmcloud.xm_cloud.client import Client


def sweep(client: Client, *rates: float, title: str = "sweep") -> str:
    """An experiment with a job for each rate."""
    experiment = client.create_experiment(NewExperiment(title=title)).id
    jobs = [
        NewJob(
            name=f"train-{rate}",
            spec=JobSpec(
                executable=Command(command=("train",)), arguments=(Argument(name="lr", value=rate),)
            ),
        )
        for rate in rates
    ]
    client.add_units(experiment, NewUnits(units=tuple(NewUnit(jobs=(job,)) for job in jobs)))
    return experiment


def states(experiment: str) -> list[str]:
    return [job["state"] for job in answer("show", experiment)["jobs"]]


def test_list_shows_the_newest_first(client: Client) -> None:
    for title in ("older", "newer"):
        sweep(client, 0.1, 0.2, title=title)
    heading, first, second = xmcloud("list", "--limit", "2").stdout.splitlines()
    assert heading.split() == ["ID", "TITLE", "JOBS", "CREATOR", "CREATED"]
    assert ("newer" in first, "older" in second, "2 queued" in first) == (True, True, True)
    assert "There are more: xmcloud list --limit" in xmcloud("list", "--limit", "1").stderr
    titles = [each["experiment"]["title"] for each in answer("list", "--limit", "2")["experiments"]]
    assert titles == ["newer", "older"]


def test_show_takes_an_experiment_a_unit_a_job_or_the_beginning_of_an_id(client: Client) -> None:
    experiment = sweep(client, 0.1, 0.2)
    shown = xmcloud("show", experiment).stdout
    assert f"Experiment   {experiment}" in shown
    assert "lr=0.1" in shown
    job = answer("show", f"{experiment}/2")
    assert (job["unit"], job["name"]) == (2, "train-0.2")
    assert answer("show", job["id"]) == answer("show", job["id"][:12]) == job
    assert answer("show", experiment[:12])["experiment"]["id"] == experiment
    assert f"Experiment   {experiment}, unit 2" in xmcloud("show", job["id"]).stdout
    assert "Runs         train --lr=0.2" in xmcloud("show", job["id"]).stdout


@pytest.mark.parametrize("reference", ["zzzzzzzzzzzzzzzz", "zzzzzzzzzzzz/1"])
def test_what_is_not_there_is_named(reference: str) -> None:
    assert "There is no" in xmcloud("show", reference, status=ExitCode.REFUSED).stderr
    assert answer("show", reference, status=ExitCode.REFUSED)["type"].endswith("not-found")


def test_a_unit_that_is_not_there_is_named(client: Client) -> None:
    experiment = sweep(client, 0.1)
    refused = xmcloud("stop", f"{experiment}/2", status=ExitCode.REFUSED)
    assert f"There is no unit '{experiment}/2'" in refused.stderr


def test_an_ambiguous_beginning_does_nothing(client: Client) -> None:
    first: dict[str, str] = {}
    while True:
        experiment = sweep(client, 0.1)
        if (other := first.setdefault(experiment[0], experiment)) != experiment:
            break
    refused = xmcloud("stop", experiment[0], status=ExitCode.REFUSED)
    assert refused.stderr.startswith("Error: ")
    assert states(experiment) == states(other) == ["queued"]


def test_logs_want_one_job(client: Client) -> None:
    experiment = sweep(client, 0.1, 0.2)
    assert "has 2 units" in xmcloud("logs", experiment, status=ExitCode.REFUSED).stderr
    shown = xmcloud("logs", f"{experiment}/1")
    assert (shown.stdout, "is queued" in shown.stderr) == ("", True)


def test_actions_on_whole_experiments_and_on_single_jobs(client: Client) -> None:
    experiment = sweep(client, 0.1, 0.2, 0.3)
    assert "train-0.2: draft" in xmcloud("dequeue", f"{experiment}/2").stdout
    assert states(experiment) == ["queued", "draft", "queued"]
    acted = answer("dequeue", experiment)
    assert (len(acted["jobs"]), len(acted["skipped"])) == (2, 1)
    nothing = xmcloud("dequeue", experiment, status=ExitCode.REFUSED)
    assert nothing.stderr.count("left as it was") == 3
    assert len(answer("enqueue", f"{experiment}/1", f"{experiment}/3")["jobs"]) == 2
    assert states(experiment) == ["queued", "draft", "queued"]
    xmcloud("stop", f"{experiment}/1", "--message", "a better one ran")
    assert "a better one ran" in answer("show", f"{experiment}/1")["reason"]["message"]
    xmcloud("reset", f"{experiment}/1")
    assert states(experiment) == ["draft", "draft", "queued"]


def test_one_mistyped_id_leaves_the_others_as_they_are(client: Client) -> None:
    experiment = sweep(client, 0.1)
    xmcloud("stop", experiment, "zzzzzzzzzzzzzzzz", status=ExitCode.REFUSED)
    assert states(experiment) == ["queued"]


def test_clone_keeps_types_and_makes_drafts(client: Client) -> None:
    experiment = sweep(client, 0.1)
    shown = xmcloud("clone", f"{experiment}/1", "--set", "lr=0.01", "--title", "smaller steps")
    assert "smaller steps (1 draft)" in shown.stdout
    copy = answer("clone", experiment, "--set", "--lr=1e-3")
    (job,) = answer("show", copy["id"])["jobs"]
    assert (copy["title"], copy["cloned_from"], job["state"]) == ("sweep", experiment, "draft")
    assert job["spec"]["arguments"] == [{"name": "lr", "value": 0.001, "shell": False}]
    (job,) = answer("show", answer("clone", experiment, "--set", "lr=cosine")["id"])["jobs"]
    assert job["spec"]["arguments"][0]["value"] == "cosine"


def test_queues_are_made_arranged_and_paused(client: Client) -> None:
    assert answer("queue", "create", "gpu", "--priority", "70")["priority"] == 70
    assert "already" in xmcloud("queue", "create", "gpu", status=ExitCode.REFUSED).stderr
    experiment = sweep(client, 0.1, 0.2)
    for unit in (1, 2):
        xmcloud("queue", "move", f"{experiment}/{unit}", "--queue", "gpu")
    assert [job["unit"] for job in answer("queue", "show", "gpu")["jobs"]] == [1, 2]
    assert "in queue gpu" in xmcloud("queue", "move", f"{experiment}/2", "front").stdout
    assert [job["unit"] for job in answer("queue", "show", "gpu")["jobs"]] == [2, 1]
    assert "Queue gpu: paused" in xmcloud("queue", "pause", "gpu").stdout
    row = next(
        line for line in xmcloud("queue", "list").stdout.splitlines() if line.startswith("gpu")
    )
    assert ("paused" in row, row.split()[1:3]) == (True, ["70", "2"])
    assert "train-0.2" in xmcloud("queue", "show", "gpu").stdout
    assert answer("queue", "resume", "gpu")["paused"] is False


def test_run_detached_carries_what_the_command_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "train"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SEED", "3")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    options = ("--detach", "--json", "--pool", "gpu", "--env", "SEED", "--env", "A=b=c")
    job = json.loads(xmcloud("run", *options, "--", "train", "--lr", "0.1", "--json").stdout)
    assert job["spec"]["executable"] == {
        "kind": "command",
        "command": [str(program), "--lr", "0.1", "--json"],
        "directory": str(tmp_path),
    }
    assert job["spec"]["environment"] == {"PATH": str(tmp_path), "SEED": "3", "A": "b=c"}
    assert (job["spec"]["pool"], job["name"], job["state"]) == ("gpu", "train", "queued")
    title = answer("show", job["experiment_id"])["experiment"]["title"]
    assert title == "train --lr 0.1 --json"


def test_a_wrong_token_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_TOKEN", "wrong")
    assert "token" in xmcloud("list", status=ExitCode.NOT_SIGNED_IN).stderr


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_URL", "http://127.0.0.1:9")
    assert "does not answer" in xmcloud("list", status=ExitCode.UNREACHABLE).stderr


def test_workers_are_listed() -> None:
    assert answer("worker", "list") == {"sessions": []}
    assert "No worker is connected" in xmcloud("worker", "list").stderr


def test_the_first_page_tells_that_it_runs(url: str) -> None:
    assert f"The control plane at {url} is running" in xmcloud().stdout


def test_run_does_not_send_this_folder_to_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XMCLOUD_URL", "https://api.example.org")
    monkeypatch.setenv("XMCLOUD_TOKEN", "token")
    result = CliRunner().invoke(cli, ["run", "--", "true"])
    assert result.exit_code == 2
    assert "https://api.example.org is on another machine; name a --pool" in result.output
