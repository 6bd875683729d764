"""Commands and what they print."""

import json
from typing import Any

from click.testing import CliRunner, Result

from xmcloud.cli.main import cli


def xmcloud(*words: str, status: int = 0, typed: str = "") -> Result:
    result = CliRunner().invoke(cli, words, input=typed)
    assert result.exit_code == status, result.output
    return result


def answer(*words: str, status: int = 0) -> Any:
    return json.loads(xmcloud(*words, "--json", status=status).stdout)
