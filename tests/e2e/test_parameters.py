"""Names and parameters arrive as they were given, byte for byte."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Stack
from xmcloud.core.models import Job

ECHO = """
import json, os, sys
names = sorted(name for name in os.environb if name.startswith(b"GIVEN"))
given = {name.decode(): os.environb[name].hex() for name in names}
print(json.dumps({"argv": [os.fsencode(word).hex() for word in sys.argv[1:]], "given": given}))
"""

LONG = "".join(chr(33 + number % 90) for number in range(100_000))
VALUES = [
    "two words",
    "line\none\r\n\ttwo\n",
    "'single' \"double\" `back`",
    "$HOME ${HOME} $(id) !! %d {} \\n \\",
    "*?[a-z]~ | & ; < > #",
    "größe 数据 🚀 e\u0301\u202e",
    "-",
    "--",
    "--flag=value",
    " ",
    "",
    LONG,
]
TITLE = "a / title: with 'quotes', \"these\", back\\slash, größe 数据 🚀 " * 10
TITLE = TITLE[:300]
NAME = f"job/{TITLE[:295]}"

LAUNCH = """
import json
from xmcloud import xm, xm_local

def main(argv):
    given = json.load(open("given.json"))
    with xm_local.create_experiment(experiment_title=given["title"]) as experiment:
        specs = [
            xm.Binary(path="echo"),
            xm.PythonContainer(path="code", entrypoint=xm.ModuleName("echo")),
        ]
        packageables = [xm.Packageable(spec, xm_local.Local.Spec()) for spec in specs]
        for executable in experiment.package(packageables):
            flags = {f"flag{number}": value for number, value in enumerate(given["values"])}
            experiment.add(
                xm.Job(
                    executable,
                    xm_local.Local(experimental_stream_output=False),
                    args=flags,
                    env_vars=given["variables"],
                    name=given["name"],
                ),
            )
"""


def _hex(words: list[str]) -> list[str]:
    return [word.encode().hex() for word in words]


def _variables() -> dict[str, str]:
    return {f"GIVEN{number}": value for number, value in enumerate(VALUES)}


def _assert_arrived(stack: Stack, job: Job, argv: list[str]) -> None:
    assert job.state == "completed", job.reason
    assert job.name == NAME
    got: dict[str, Any] = json.loads(stack.whole_log(job))
    assert got["argv"] == _hex(argv)
    assert got["given"] == {name: value.encode().hex() for name, value in _variables().items()}


def _newest(stack: Stack) -> str:
    newest = stack.json("list")["experiments"][0]["experiment"]
    assert newest["title"] == TITLE
    assert TITLE[:40] in stack("show", newest["id"]).stdout
    id: str = newest["id"]
    return id


def _cloned(stack: Stack, experiment: str) -> list[Job]:
    clone: str = stack.json("clone", experiment)["id"]
    stack("enqueue", clone)
    assert stack.client.experiment(clone).experiment.title == TITLE
    return stack.ended(clone)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder, with 'quotes' and 🚀"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "echo.py").write_text(ECHO)
    program = folder / "echo"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} code/echo.py "$@"\n')
    program.chmod(0o755)
    return folder


def test_from_the_command_line_and_cloned(embedded: Stack, code: Path) -> None:
    variables = [f"--env={name}={value}" for name, value in _variables().items()]
    names = [f"--title={TITLE}", f"--name={NAME}"]
    command = [sys.executable, str(code / "code" / "echo.py"), *VALUES]
    embedded("run", *names, *variables, "--", *command, folder=code)
    experiment = _newest(embedded)
    for job in [*embedded.ended(experiment), *_cloned(embedded, experiment)]:
        _assert_arrived(embedded, job, VALUES)


def test_from_a_launch_script_and_cloned(embedded: Stack, code: Path) -> None:
    given = {"title": TITLE, "name": NAME, "values": VALUES, "variables": _variables()}
    (code / "given.json").write_text(json.dumps(given))
    (code / "launch.py").write_text(LAUNCH)
    done = embedded("launch", "launch.py", folder=code)
    assert done.stderr.endswith("2 completed\n")
    experiment = _newest(embedded)
    argv = [f"--flag{number}={value}" for number, value in enumerate(VALUES)]
    jobs = [*embedded.ended(experiment), *_cloned(embedded, experiment)]
    assert [job.spec.executable.kind for job in jobs] == ["command", "python_source"] * 2
    for job in jobs:
        _assert_arrived(embedded, job, argv)
