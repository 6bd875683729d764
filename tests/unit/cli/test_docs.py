"""`docs/cli.md` names every command, option, environment variable and exit status."""

from pathlib import Path

import click
import pytest

from xmcloud.cli.exit_codes import ExitCode
from xmcloud.cli.main import COMMANDS

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


def rows_about(name: str) -> str:
    return "\n".join(line for line in TEXT.splitlines() if line.startswith("|") and name in line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    command = COMMANDS[name].load()
    parts = command.commands if isinstance(command, click.Group) else {}
    for full_name in [f"{name} {part}" for part in parts] or [name]:
        assert f"`{full_name}" in rows_about(full_name)


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_status_is_there(code: ExitCode) -> None:
    assert f"| {code:d} | " in TEXT
