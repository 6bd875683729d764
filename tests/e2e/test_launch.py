"""`xmcloud launch` with a real control plane and a real worker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TRAIN = """
import json, os, sys
from helper import square
value = int(sys.argv[1].partition("=")[2])
print("training", sys.argv[1:], os.environ["EXTRA"])
if value == 3:
    sys.exit("cannot train 3")
json.dump({"square": square(value)}, open(os.environ["XMCLOUD_RESULTS"], "w"))
"""

LAUNCH = """
from collections.abc import Sequence
from xmcloud import xm, xm_local

def main(argv: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="squares") as experiment:
        spec = xm.PythonContainer(path="train", entrypoint=xm.ModuleName("train"))
        [executable] = experiment.package(
            [xm.Packageable(spec, xm_local.Local.Spec(), env_vars={"EXTRA": "with spaces"})]
        )
        for value in argv[1:]:
            experiment.add(
                xm.Job(executable, xm_local.Local()), args={"args": {"value": int(value)}}
            )
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home of its own, whose control plane the first launch starts."""
    home = tmp_path_factory.mktemp("home")
    own = {name: text for name, text in os.environ.items() if not name.startswith("XMCLOUD_")}
    own |= {"XMCLOUD_HOME": str(home), "XMCLOUD_CACHE": str(home / "cache")}
    try:
        yield own
    finally:
        xmcloud(own, "down")


def xmcloud(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xmcloud.cli", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "train.py").write_text(TRAIN)
    (tmp_path / "train" / "helper.py").write_text("def square(x): return x * x\n")
    (tmp_path / "launch.py").write_text(LAUNCH)
    return tmp_path / "launch.py"


def test_a_sweep_runs_and_its_results_are_shown(environment: dict[str, str], script: Path) -> None:
    done = xmcloud(environment, "launch", str(script), "--", "1", "2")
    assert done.returncode == 0, done.stderr
    for unit, square in ((1, 1), (2, 4)):
        assert f"[{unit}] training ['--value={unit}'] with spaces" in done.stderr
        assert f"\n{unit}     value={unit}     {square}" in done.stderr
    assert done.stderr.endswith("2 completed\n")


def test_a_failing_unit_fails_the_launch(environment: dict[str, str], script: Path) -> None:
    done = xmcloud(environment, "launch", str(script), "--", "3", "4")
    assert done.returncode == 1
    assert "cannot train 3" in done.stderr
    assert "1 completed, 1 failed" in done.stderr


def test_a_script_that_is_wrong(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "launch.py").write_text("x = 1\n")
    done = xmcloud(environment, "launch", str(tmp_path / "launch.py"))
    assert done.returncode == 2
    assert "defines no main(argv)" in done.stderr
    assert "Traceback" not in done.stderr
