"""Dry runs, in processes that may open no connection and have an empty home."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

OFFLINE = """
import socket, sys

def refused(*_):
    sys.stderr.write("A CONNECTION WAS OPENED")
    raise OSError("offline")

socket.socket.connect = socket.socket.connect_ex = refused
from xmcloud.cli.main import main
main()
"""
HEADER = """
import asyncio, itertools, os, sys
from xmcloud import xm, xm_local
"""

PYTHON = {"PYTHONUNBUFFERED": "1"}


class Machine:
    """Where commands run, with a file in place of a Docker engine's socket or without one."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / "home", folder / "work"
        self.docker = folder / "docker.sock"
        (self.folder / "train").mkdir(parents=True)
        (self.folder / "train" / "train.py").touch()
        (self.folder / "train" / "requirements.txt").write_text("numpy\n")

    def xmcloud(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own = {"XMCLOUD_HOME": str(self.home), "DOCKER_HOST": f"unix://{self.docker}"}
        ran = subprocess.run(
            [sys.executable, "-c", OFFLINE, *words],
            cwd=self.folder,
            env={**kept, **own, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "CONNECTION" not in ran.stderr
        assert not self.home.exists()
        return ran

    def launch(self, source: str, *words: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "launch.py").write_text(HEADER + textwrap.dedent(source))
        ran = self.xmcloud("launch", "launch.py", "--dry-run", *words)
        assert ran.returncode == 0, ran.stderr
        return ran

    def plan(self, source: str, *words: str) -> Any:
        return json.loads(self.launch(source, "--json", *words).stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


AWKWARD = """
def main(argv):
    print("the script says", argv[1:])
    os.system("echo so does its child")
    with xm_local.create_experiment("sweep") as experiment:
        [executable] = experiment.package([xm.python_container(
            xm_local.Local.Spec(), path="train", entrypoint=xm.ModuleName("train"),
            env_vars={"API_TOKEN": "hidden", "SEED": "3 4"},
        )])
        args = {"text": "a 'b' $HOME\\n", "flag": True, "off": False, "many": [1, 2.0],
                "out": f"gs://x/{experiment.experiment_id}/1"}
        experiment.add(xm.Job(executable, xm_local.Local(), args=args))
"""


def test_argv_is_exact_in_json_and_stdout_holds_nothing_else(machine: Machine) -> None:
    ran = machine.launch(AWKWARD, "--json", "--", "--dry-run", "--lr=1")
    plan = json.loads(ran.stdout)
    assert "the script says ['--dry-run', '--lr=1']\n" in ran.stderr
    assert "so does its child\n" in ran.stderr
    [job] = plan["jobs"]
    assert job["argv"] == [
        *("python", "-m", "train", "--text=a 'b' $HOME\n", "--flag", "--nooff"),
        *("--many=1", "--many=2.0", "--out=gs://x/EXPERIMENT/1"),
    ]
    assert job["environment"] == {**PYTHON, "API_TOKEN": "***", "SEED": "3 4"}
    assert (job["unit"], job["name"], job["pool"], job["queue"]) == (1, "train", "local", "default")
    assert (job["hourly_price"], job["price_source"]) == (0, "own machines")
    assert plan["experiments"] == {"EXPERIMENT": "sweep"}
    assert plan["ended"] is None


def test_the_table_quotes_for_a_shell(machine: Machine) -> None:
    lines = machine.launch(AWKWARD).stdout.splitlines()
    assert "so does its child" in lines
    table = "\n".join(lines)
    assert r"""'--text=a '"'"'b'"'"' $HOME""" in table
    assert "API_TOKEN=*** SEED='3 4'" in table
    assert "hidden" not in table
    assert "environment of requirements.txt" in table
    assert "Together: 1 job, on your own machines.\nNothing was sent." in table


VERTEX = """
def main(argv):
    spec = xm_local.Vertex.Spec()
    with xm_local.create_experiment("cloud") as experiment:
        ours, other = experiment.package([
            xm.python_container(spec, path="train", entrypoint=xm.ModuleName("train")),
            xm.container(spec, "gcr.io/x/y", args=["serve"]),
        ])
        t4 = xm_local.Vertex(xm.JobRequirements(t4=1), queue="high")
        eight = xm_local.Vertex(xm.JobRequirements(cpu=8))
        spot = xm_local.Vertex(xm.JobRequirements(t4=1), spot=True)
        experiment.add(xm.Job(ours, t4, args={"lr": 0.1}))
        experiment.add(xm.Job(other, eight))
        experiment.add(xm.Job(other, spot))
        group = xm.JobGroup(
            head=xm.Job(ours, xm_local.Vertex()),
            rest=xm.Job(ours, xm_local.Vertex(xm.JobRequirements(replicas=2)),
                        args={"at": "%objectname(head)%"}),
        )
        experiment.add(group)
"""


def test_jobs_on_vertex_ai_have_machines_builds_and_prices(machine: Machine) -> None:
    plan = machine.plan(VERTEX)
    t4, eight, spot, head, rest = plan["jobs"]
    assert t4["image"].startswith("build: train (")
    assert head["image"] == t4["image"]
    assert t4["argv"] == ["python3", "-m", "train", "--lr=0.1"]
    assert (t4["pool"], t4["queue"], t4["machine"]) == ("vertex", "high", "n1-standard-4")
    assert t4["accelerators"] == {"t4": 1}
    assert t4["hourly_price"] == pytest.approx(0.620999)
    assert (eight["image"], eight["argv"]) == ("gcr.io/x/y", ["ENTRYPOINT", "serve"])
    assert (eight["machine"], eight["hourly_price"]) == ("n1-standard-8", 0.436998)
    assert spot["hourly_price"] is None
    assert [(job["unit"], job["name"], job["replicas"]) for job in (head, rest)] == [
        (4, "head", 1),
        (4, "rest", 2),
    ]
    assert rest["argv"][-1] == "--at=%objectname(head)%"
    assert rest["hourly_price"] == pytest.approx(2 * 0.218499)
    assert plan["hourly_price"] == pytest.approx(0.620999 + 5 * 0.218499)
    assert plan["unpriced"] == 1
    table = machine.launch(VERTEX).stdout
    assert "n1-standard-4 + 1 t4" in table
    assert "Together: 5 jobs, 1.71 USD/h and 1 of unknown price: an estimate from" in table
    assert f"of us-central1 on {plan['prices']['date']}" in table


def test_elsewhere_and_overflow(machine: Machine) -> None:
    plan = machine.plan(
        """
        def main(argv):
            with xm_local.create_experiment("a") as experiment:
                kubernetes, over, pool = experiment.package([
                    xm.container(spec.Spec(), "x") for spec in
                    (xm_local.Kubernetes, xm_local.Overflow, xm_local.WorkerPool)
                ])
                experiment.add(xm.Job(kubernetes, xm_local.Kubernetes()))
                experiment.add(xm.Job(over, xm_local.Overflow(after=60)))
                experiment.add(xm.Job(pool, xm_local.WorkerPool(pool="gpus")))
            with xm_local.create_experiment("b") as experiment:
                executor = xm_local.WorkerPool(xm.JobRequirements(replicas=2))
                experiment.add(xm.Job(pool, executor))
                assert experiment.experiment_id != "EXPERIMENT2"
        """
    )
    kubernetes, over, pool, first, second = plan["jobs"]
    assert (kubernetes["hourly_price"], kubernetes["pool"]) == (None, "kubernetes")
    assert over["overflow"] == {"target": "vertex", "after_seconds": 60}
    assert over["hourly_price"] == pytest.approx(0.218499)
    assert over["price_source"].endswith("if it overflows")
    assert (pool["pool"], pool["hourly_price"]) == ("gpus", 0)
    assert [first["experiment"], first["name"], second["name"]] == ["EXPERIMENT2", "x_0", "x_1"]
    assert second["environment"] == {**PYTHON, "XMCLOUD_REPLICA": "1", "XMCLOUD_REPLICAS": "2"}


def test_with_a_docker_engine_the_image_is_named_and_not_built(machine: Machine) -> None:
    machine.docker.touch()
    plan = machine.plan(AWKWARD)
    assert plan["jobs"][0]["image"] == "build: train"
    assert plan["jobs"][0]["argv"][:3] == ["python3", "-m", "train"]


def test_an_image_that_needs_an_engine_is_planned_without_one(machine: Machine) -> None:
    script = """
        def main(argv):
            with xm_local.create_experiment("a") as experiment:
                [executable] = experiment.package([xm.python_container(
                    xm_local.Local.Spec(), path="train", base_image="python",
                    entrypoint=xm.ModuleName("train"),
                )])
                experiment.add(xm.Job(executable, xm_local.Local()))
    """
    ran = machine.launch(script)
    assert "build: train" in ran.stdout
    assert "The image train needs a Docker engine on this machine, and none answers." in ran.stderr


def test_a_search_leaves_no_study_behind(machine: Machine) -> None:
    ran = machine.launch(
        """
        from xmcloud.vizier import vizier_cloud
        Spec = vizier_cloud.StudySpec
        Parameter, Metric = Spec.ParameterSpec, Spec.MetricSpec

        def main(argv):
            with xm_local.create_experiment("a") as experiment:
                [executable] = experiment.package([xm.container(xm_local.Vertex.Spec(), "x")])
                spec = Spec(
                    parameters=[Parameter(
                        parameter_id="x", double_value_spec=Parameter.DoubleValueSpec(0.0, 1.0),
                    )],
                    metrics=[Metric(metric_id="loss", goal=Metric.GoalType.MINIMIZE)],
                )
                vizier_cloud.VizierExploration(
                    experiment, xm.Job(executable, xm_local.Vertex()),
                    vizier_cloud.NewStudy(spec), 3, 2,
                ).launch()
        """
    )
    assert "The script waits for its jobs" in ran.stderr
    assert ran.stdout.count("--trial_name=") == 2


def test_what_bazel_would_build_is_named_and_not_built(machine: Machine) -> None:
    plan = machine.plan(
        """
        def main(argv):
            with xm_local.create_experiment("a") as experiment:
                [program] = experiment.package(
                    [xm.bazel_binary(xm_local.WorkerPool.Spec(), "//tools:train")]
                )
                experiment.add(xm.Job(program, xm_local.WorkerPool(), args={"a": 1}))
        """
    )
    assert (plan["jobs"][0]["argv"], plan["jobs"][0]["image"]) == (["train", "--a=1"], "program")


ASYNC = """
async def main(argv):
    async with xm_local.create_experiment("a") as experiment:
        [executable] = experiment.package([xm.container(xm_local.WorkerPool.Spec(), "x")])

        async def generator(unit, lr):
            name = unit.experiment_unit_name
            unit.add(xm.Job(executable, xm_local.WorkerPool(), args={"lr": lr, "dir": name}))

        units = [await experiment.add(generator, {"lr": lr}) for lr in (0.1, 0.2)]
        if "--wait" in argv:
            await asyncio.gather(*(unit.wait_until_complete() for unit in units))
        experiment.add(generator, {"lr": 0.3})
"""


def test_generators_add_their_jobs_in_an_async_main(machine: Machine) -> None:
    plan = machine.plan(ASYNC)
    assert [job["argv"] for job in plan["jobs"]] == [
        ["ENTRYPOINT", f"--lr=0.{unit}", f"--dir=EXPERIMENT_{unit}"] for unit in (1, 2, 3)
    ]


def test_a_script_that_waits_for_results_ends_there(machine: Machine) -> None:
    ran = machine.launch(ASYNC, "--", "--wait")
    assert "--lr=0.2" in ran.stdout
    assert "--lr=0.3" not in ran.stdout
    assert ran.stderr == (
        "The script waits for its jobs, which a dry run cannot: "
        "the plan holds what it added before.\n"
    )
    assert machine.plan(ASYNC, "--", "--wait")["ended"] == "waits for its jobs"


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("unit.get_status()", "asks how its jobs are"),
        ("unit.stop()", "stops a job"),
        ("xm_local.list_experiments()", "asks the control plane (GET /v1/experiments)"),
    ],
    ids=["status", "stop", "others"],
)
def test_a_script_ends_where_only_a_control_plane_knows(
    machine: Machine, line: str, ended: str
) -> None:
    plan = machine.plan(
        f"""
        def main(argv):
            with xm_local.create_experiment("a") as experiment:
                experiment.context.annotations.set_title("b")
                [image] = experiment.package([xm.container(xm_local.Local.Spec(), "x")])
                experiment.add(xm.Job(image, xm_local.Local()))
                unit = experiment.work_units[1]
                {line}
                experiment.add(xm.Job(image, xm_local.Local()))
        """
    )
    assert (plan["ended"], plan["experiments"]) == (ended, {"EXPERIMENT": "b"})
    assert [job["unit"] for job in plan["jobs"]] == [1]


def test_a_mistake_is_refused_as_in_a_launch(machine: Machine) -> None:
    (machine.folder / "launch.py").write_text(
        HEADER + "def main(argv):\n    xm_local.create_experiment('')\n"
    )
    ran = machine.xmcloud("launch", "--dry-run", "--json", "launch.py")
    assert (ran.returncode, json.loads(ran.stdout)["field"]) == (2, "title")


def test_json_alone_is_refused(machine: Machine) -> None:
    (machine.folder / "launch.py").touch()
    ran = machine.xmcloud("launch", "launch.py", "--json")
    assert (ran.returncode, "add --dry-run" in ran.stderr) == (2, True)


def test_one_command(machine: Machine) -> None:
    words = ("run", "--queue=low", "--env=MY_SECRET=x", "--dry-run")
    command = ("--", sys.executable, "a b", "$c")
    plan = json.loads(machine.xmcloud(*words, "--json", *command).stdout)
    [job] = plan["jobs"]
    assert job["argv"] == list(command[1:])
    assert job["environment"] == {"PATH": os.environ["PATH"], "MY_SECRET": "***"}
    assert (job["image"], job["queue"], job["pool"]) == ("process", "low", "local")
    table = machine.xmcloud(*words, *command).stdout
    assert f"{sys.executable} 'a b' '$c'" in table
    assert table.endswith("Together: 1 job, on your own machines.\nNothing was sent.\n")


def test_one_command_for_a_control_plane_elsewhere_needs_a_pool(machine: Machine) -> None:
    ran = machine.xmcloud("run", "--dry-run", "--", "true", XMCLOUD_URL="https://far.example")
    assert (ran.returncode, "name a --pool" in ran.stderr) == (2, True)
