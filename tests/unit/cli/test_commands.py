"""The list of commands: told without importing them, and true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from xmcloud.cli.exit_codes import MEANINGS, ExitCode, exit_code
from xmcloud.cli.main import COMMANDS, cli
from xmcloud.core import errors

HEAVY = ["asyncio", "fastapi", "httpx", "psutil", "pydantic", "rich", "uvicorn"]


def every_command() -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = [()]
    for name, lazy in COMMANDS.items():
        paths.append((name,))
        command = lazy.load()
        if isinstance(command, click.Group):
            paths += [(name, part) for part in command.commands]
    return paths


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_tells_what_the_commands_tell(name: str) -> None:
    command = COMMANDS[name].load()
    assert (command.name, command.short_help) == (name, COMMANDS[name].help)


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path, "--help"])
    assert shown.exit_code == 0
    assert shown.output.startswith("Usage: ")


_USE_EVERYTHING = """
import json, sys
from click.testing import CliRunner
from xmcloud.cli.main import cli

paths, typed, heavy = json.loads(sys.argv[1])
for path in paths:
    assert CliRunner().invoke(cli, [*path, "--help"]).exit_code == 0, path
for words in typed:
    variables = {"_C": "bash_complete", "COMP_WORDS": words}
    variables["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    shown = CliRunner().invoke(cli, prog_name="xmcloud", complete_var="_C", env=variables)
    assert shown.exit_code == 0, shown.output
print(*(name for name in heavy if name in sys.modules))
"""


def test_help_and_completion_import_nothing_heavy(tmp_path: Path) -> None:
    typed = [
        "xmcloud ",
        "xmcloud queue ",
        "xmcloud run --",
        "xmcloud show a",
        "xmcloud run --pool ",
    ]
    run = subprocess.run(
        [sys.executable, "-c", _USE_EVERYTHING, json.dumps([every_command(), typed, HEAVY])],
        env={**os.environ, "XMCLOUD_HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == []


def test_the_exit_codes_stand_in_the_help() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    for code in ExitCode:
        assert f"{code:3}  {MEANINGS[code]}" in shown


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("job", "abc"), ExitCode.REFUSED),
        (errors.IllegalTransition("reset", "abc", "running", ["failed"]), ExitCode.REFUSED),
        (errors.TooLarge("the archive", 2, 1), ExitCode.REFUSED),
        (errors.InvalidInput("title", "", "some text"), ExitCode.USAGE),
        (errors.Unauthorized("who?"), ExitCode.NOT_SIGNED_IN),
        (errors.Unavailable("nobody there"), ExitCode.UNREACHABLE),
        (errors.CorruptStore("store.db", "not a database"), ExitCode.UNREACHABLE),
    ],
)
def test_a_refusal_has_its_exit_code(error: errors.XmcloudError, code: ExitCode) -> None:
    assert exit_code(error) == code


@pytest.fixture
def no_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path))
    monkeypatch.delenv("XMCLOUD_URL", raising=False)
    monkeypatch.delenv("XMCLOUD_TOKEN", raising=False)
    return tmp_path


@pytest.mark.usefixtures("no_control_plane")
def test_without_a_control_plane_one_line_says_what_to_do() -> None:
    shown = CliRunner().invoke(cli, ["list"])
    assert shown.exit_code == ExitCode.UNREACHABLE
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: No control plane is known")
    assert "xmcloud up" in shown.stderr
    assert shown.stderr.count("\n") == 1


@pytest.mark.usefixtures("no_control_plane")
def test_with_json_a_refusal_is_a_problem_on_stdout() -> None:
    shown = CliRunner().invoke(cli, ["list", "--json"])
    assert shown.exit_code == ExitCode.UNREACHABLE
    problem = json.loads(shown.stdout)
    assert problem["type"] == "urn:xmcloud:problem:unavailable"
    assert problem["status"] == 503
    assert "xmcloud up" in problem["remedy"]
    assert shown.stderr.startswith("Error: ")


@pytest.mark.usefixtures("no_control_plane")
def test_the_command_alone_says_what_to_do_first() -> None:
    shown = CliRunner().invoke(cli)
    assert shown.exit_code == 0
    assert shown.output.count("\n  xmcloud ") == 3
    assert "No control plane runs here yet" in shown.output


@pytest.mark.parametrize(
    "text", ["", "K3V7", "a b", "a1", "a" * 17, "abc/", "abc/0", "abc/x", "/3"]
)
def test_what_cannot_be_an_id_is_a_usage_error(text: str) -> None:
    shown = CliRunner().invoke(cli, ["show", text])
    assert shown.exit_code == ExitCode.USAGE
    assert "is no id" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clone", "abc", "--set", "lr"], "'lr' is not FLAG=VALUE"),
        (["run", "--env", "XMCLOUD_NOT_SET", "--", "true"], "XMCLOUD_NOT_SET is not set here"),
        (["run", "--", "no-such-program"], "no program 'no-such-program'"),
        (["run", "--queue", "No Queue", "--", "true"], "queue is 'No Queue'"),
        (["run"], "Missing argument"),
        (["run", "--queu", "high", "--", "true"], "No such option"),
        (["launch", "--lr=1"], "No such option"),
        (["launch", "no-such-script.py"], "does not exist"),
        (["queue", "move", "abc", "sideways"], "sideways"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(arguments: list[str], message: str) -> None:
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == ExitCode.USAGE
    assert message in shown.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(shell: str) -> None:
    shown = CliRunner().invoke(cli, ["completion", shell])
    assert shown.exit_code == 0
    assert "_XMCLOUD_COMPLETE" in shown.output
