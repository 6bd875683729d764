"""The example of the README, as a person runs it: on SQLite, and unchanged on the emulators."""

import re
import subprocess
from pathlib import Path

import pytest
import uv

from tests.e2e.conftest import services_are_required
from tests.e2e.stack import Stack, processes_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
ROW = re.compile(
    r"(?P<unit>\d+) +hidden_units=(?P<hidden>16|64) learning_rate=[0-9.]+"
    r" +(?P<accuracy>0\.\d+|1) +\S+ +\S+ s +completed"
)


@pytest.fixture(scope="session")
def package_index() -> None:
    """Skips where uv finds no package index, unless services are required."""
    command = [uv.find_uv_bin(), "pip", "compile", "--quiet", "--no-cache", "--no-deps"]
    asked = subprocess.run(
        [*command, str(DIGITS / "train" / "requirements.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        return
    if services_are_required():
        pytest.fail(f"uv reaches no package index: {asked.stderr}", pytrace=False)
    pytest.skip("the digits example installs scikit-learn, and uv reaches no package index")


@pytest.mark.slow
@pytest.mark.usefixtures("package_index")
def test_digits(stack: Stack) -> None:
    if stack.emulators:
        stack.up()
    done = stack("launch", str(DIGITS / "launch.py"))
    rows = [ROW.fullmatch(line) for line in done.stderr.splitlines()]
    found = [row for row in rows if row is not None]
    assert [int(row["unit"]) for row in found] == list(range(1, 9)), done.stderr
    assert {row["hidden"] for row in found} == {"16", "64"}
    assert max(float(row["accuracy"]) for row in found) > 0.9
    assert done.stderr.endswith("8 completed\n")
    stack("down")
    assert processes_of(stack.home) == []
