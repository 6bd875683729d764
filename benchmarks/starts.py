"""How long commands take to start."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, median
from benchmarks.stack import Stack

_EMPTY = """
import click

@click.command()
def main():
    "An empty program."

main()
"""
_SCRIPT = """
from xmcloud import xm, xm_local

def main(_):
    with xm_local.create_experiment(experiment_title="start") as experiment:
        [executable] = experiment.package(
            [xm.binary(path="{program}", executor_spec=xm_local.Local.Spec())]
        )
        experiment.add(xm.Job(executable=executable, executor=xm_local.Local()))
"""


def _seconds(argv: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def _environment() -> dict[str, str]:
    """Without the switch that makes every start compile its modules again."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def command_starts(stack: Stack, count: int) -> list[Figure]:
    """`--help` and `list`, alternating with an empty click program."""
    xmcloud = str(Path(sys.executable).with_name("xmcloud"))
    environment = _environment()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty.py")
        empty.write_text(_EMPTY)
        commands = {
            "empty": [sys.executable, str(empty), "--help"],
            "--help": [xmcloud, "--help"],
            "list": [xmcloud, "list"],
        }
        samples: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(count + 2):
            for name, argv in commands.items():
                samples[name].append(_seconds(argv, environment) * 1e3)
    floor = median(samples["empty"][2:])
    return [
        Figure(
            f"xmcloud {name}",
            median(samples[name][2:]),
            "ms",
            floor,
            "empty click program",
            1.5 if name == "--help" else None,
            on_ratio=True,
        )
        for name in ("--help", "list")
    ]


def launch_start(stack: Stack, count: int) -> list[Figure]:
    """From typing `xmcloud launch` to the first instruction of its first process."""
    xmcloud = str(Path(sys.executable).with_name("xmcloud"))
    environment = _environment()
    samples, floors = [], []
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder, "printed")
        program = Path(folder, "program.sh")
        program.write_text(f"#!/bin/sh\ndate +%s%N > {printed}\n")
        program.chmod(0o755)
        script = Path(folder, "launch.py")
        script.write_text(_SCRIPT.format(program=program))
        for _ in range(count + 1):
            began = time.time_ns()
            subprocess.run(
                [xmcloud, "launch", str(script)], env=environment, check=True, capture_output=True
            )
            samples.append((int(printed.read_text()) - began) / 1e6)
            floors.append(_seconds([sys.executable, "-c", "import httpx, pydantic"], environment))
    return [
        Figure(
            "xmcloud launch to its first process, p50",
            median(samples[1:]),
            "ms",
            median(floors[1:]) * 1e3,
            "python importing httpx and pydantic",
            500.0,
        )
    ]
