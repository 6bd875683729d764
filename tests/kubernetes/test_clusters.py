"""`xmcloud cluster` against a stand-in for the GKE API."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest
from click.testing import CliRunner, Result
from google.cloud import container_v1 as gke

from tests.kubernetes.gke import StandIn, serving
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import cli
from xmcloud.local.clusters import Gke, GkeRefused, Nodes

WHERE = ["--project", "p", "--location", "europe-west4-a"]
NAME = "projects/p/locations/europe-west4-a/clusters/lab"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with serving() as running:
        monkeypatch.setenv("XMCLOUD_GKE_ENDPOINT", running.address)
        yield running


def run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["cluster", *arguments], input=answer)


def test_a_cluster_on_autopilot(stand_in: StandIn) -> None:
    shown = run("create", "lab", *WHERE, "--autopilot")

    assert (shown.exit_code, shown.stdout) == (ExitCode.OK, "Cluster lab is ready.\n")
    assert "get-credentials lab --location europe-west4-a --project p" in shown.stderr
    made = stand_in.clusters[NAME]
    assert made.autopilot.enabled
    assert not made.node_pools


def test_a_cluster_of_spot_machines_with_gpus(stand_in: StandIn) -> None:
    machines = ["--machine-type", "n1-standard-8", "--nodes", "2", "--accelerator", "T4=1"]
    shown = run("create", "lab", *WHERE, *machines, "--spot", "--json")

    assert json.loads(shown.stdout) == {
        "name": "lab",
        "location": "europe-west4-a",
        "state": "running",
        "autopilot": False,
        "nodes": 3,
        "version": "1.33.1",
    }
    made = stand_in.clusters[NAME]
    [pool] = made.node_pools
    assert pool.initial_node_count == 2
    assert (pool.config.machine_type, pool.config.spot) == ("n1-standard-8", True)
    [accelerator] = pool.config.accelerators
    assert accelerator.accelerator_type == "nvidia-tesla-t4"
    assert accelerator.accelerator_count == 1
    assert made.workload_identity_config.workload_pool == "p.svc.id.goog"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--autopilot"),
        (["--autopilot", "--spot"], "leave out"),
        (["--machine-type", "n1-standard-8", "--accelerator", "t4"], "t4=1"),
        (["--machine-type", "n1-standard-8", "--accelerator", "t5=1"], "one of p4, t4"),
    ],
)
def test_machines_that_make_no_sense(stand_in: StandIn, options: list[str], said: str) -> None:
    shown = run("create", "lab", *WHERE, *options)

    assert shown.exit_code == ExitCode.USAGE
    assert said in shown.stderr
    assert stand_in.clusters == {}


def test_deleting_asks_first(stand_in: StandIn) -> None:
    stand_in.clusters[NAME] = gke.Cluster(name="lab", location="europe-west4-a")

    refused = run("delete", "lab", *WHERE, answer="n\n")
    assert refused.exit_code != ExitCode.OK
    assert "all that runs on it?" in refused.stderr
    assert NAME in stand_in.clusters

    deleted = run("delete", "lab", *WHERE, answer="y\n")
    assert (deleted.exit_code, deleted.stdout) == (ExitCode.OK, "Cluster lab is gone.\n")
    assert stand_in.clusters == {}


def test_deleting_without_a_question(stand_in: StandIn) -> None:
    stand_in.clusters[NAME] = gke.Cluster(name="lab", location="europe-west4-a")

    shown = run("delete", "lab", *WHERE, "--yes", "--json")

    assert json.loads(shown.stdout)["state"] == "deleted"


def test_the_clusters_that_there_are(stand_in: StandIn) -> None:
    assert "xmcloud cluster create" in run("list", "--project", "p").stderr
    run("create", "lab", *WHERE, "--autopilot")

    shown = run("list", "--project", "p").stdout
    assert "lab   europe-west4-a  running  autopilot" in shown
    listed = json.loads(run("list", "--project", "p", "--json").stdout)
    assert [each["name"] for each in listed["clusters"]] == ["lab"]


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, ExitCode.NOT_SIGNED_IN, "roles/container.admin"),
        (grpc.StatusCode.UNAUTHENTICATED, ExitCode.NOT_SIGNED_IN, "gcloud auth"),
        (grpc.StatusCode.INVALID_ARGUMENT, ExitCode.REFUSED, "why so"),
        (grpc.StatusCode.FAILED_PRECONDITION, ExitCode.REFUSED, "why so"),
        (grpc.StatusCode.NOT_FOUND, ExitCode.REFUSED, "why so"),
    ],
)
def test_a_refusal_is_one_line_with_its_remedy(
    stand_in: StandIn, code: grpc.StatusCode, status: ExitCode, said: str
) -> None:
    stand_in.refusal = (code, "why so")
    shown = run("create", "lab", *WHERE, "--autopilot")

    assert shown.exit_code == status
    [line] = shown.stderr.splitlines()
    assert line.startswith("Error: ")
    assert said in line


def test_a_cluster_that_is_not_there(stand_in: StandIn) -> None:
    shown = run("delete", "lab", *WHERE, "--yes")

    assert shown.exit_code == ExitCode.REFUSED
    assert "There is no cluster 'lab'. List them: xmcloud cluster list" in shown.stderr


def test_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "nowhere.json")
    shown = run("list", "--project", "p")

    assert shown.exit_code == ExitCode.NOT_SIGNED_IN
    [line] = shown.stderr.splitlines()
    assert line.endswith("Run: gcloud auth application-default login")


def test_a_name_that_is_taken(stand_in: StandIn) -> None:
    run("create", "lab", *WHERE, "--autopilot")
    shown = run("create", "lab", *WHERE, "--autopilot", "--json")

    assert shown.exit_code == ExitCode.REFUSED
    assert json.loads(shown.stdout)["type"] == "urn:xmcloud:problem:already-exists"


def test_waiting_tells_what_is_new(stand_in: StandIn) -> None:
    stand_in.course = ["network", "network", "nodes"]
    told: list[str] = []
    waits: list[float] = []
    client = Gke("p", "europe-west4-a", stand_in.address, sleep=waits.append)

    client.wait(client.create("lab", Nodes("n1-standard-8", 1)), told.append)

    assert told == ["network", "nodes"]
    assert len(waits) == 3
    client.close()


def test_an_operation_that_fails(stand_in: StandIn) -> None:
    stand_in.failure = "not enough T4 in the zone"
    client = Gke("p", "europe-west4-a", stand_in.address)

    with pytest.raises(GkeRefused, match="not enough T4"):
        client.wait(client.create("lab", None), print)
    client.close()


def test_ctrl_c_ends_only_the_waiting(stand_in: StandIn) -> None:
    stand_in.course = ["network"] * 1000
    command = [sys.executable, "-m", "xmcloud.cli", "cluster", "create", "lab", "--autopilot"]
    with subprocess.Popen(
        [*command, *WHERE], stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert stand_in.looked.wait(30)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == ExitCode.INTERRUPTED
    assert "Creating cluster lab goes on" in said
    assert NAME in stand_in.clusters
