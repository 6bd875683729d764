"""`make smoke`: each part of a deployment once, on the embedded stack and on the emulators."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.stack import Stack, processes_of
from tests.e2e.terminal import DEADLINE
from xmcloud.cli.smoke.steps import write_launch
from xmcloud.xm_cloud.credentials.credentials import Fixed
from xmcloud.xm_cloud.places import address

STEPS = [
    *("Sign in", "Ready", "Secret", "Experiment", "Worker"),
    *("Log", "Result", "Messages", "Files", "Stop"),
]


def smoke(environment: Mapping[str, str], home: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    """How it ended, and by step: what came of it, and what was seen."""
    done = subprocess.run(
        [sys.executable, "-m", "xmcloud.cli.smoke", f"--terraform={home}"],
        env={**environment, "TMPDIR": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE,
        check=False,
    )
    assert done.stderr == ""
    table = done.stdout.partition("\nSTEP ")[2]
    rows = re.findall(r"^(\S.*?) {2,}(ok|FAILED|not tried) *(.*)$", table, re.MULTILINE)
    return done.returncode, {step: (what, seen) for step, what, seen in rows}


def test_everything_works(stack: Stack, tmp_path: Path) -> None:
    stack.up()
    here = address(stack.environment)
    assert isinstance(here.credentials, Fixed)
    known = {"XMCLOUD_URL": here.url, "XMCLOUD_TOKEN": here.credentials.token}
    code, seen = smoke(stack.environment | known, tmp_path)
    assert {step: what for step, (what, _) in seen.items()} == dict.fromkeys(
        [*STEPS, "Clean-up"], "ok"
    )
    assert code == 0
    assert "masked" in seen["Log"][1]
    assert "through the queue and back" in seen["Messages"][1]
    # The worker has ended, and neither it nor a login was left in anybody's home.
    workers = [each["worker"] for each in stack.json("worker", "list")["sessions"]]
    assert not [name for name in workers if name.startswith("smoke-")]
    assert not list(tmp_path.glob("xmcloud-smoke-*"))
    assert stack.json("secret", "list")["secrets"] == []


def test_what_fails_is_named_and_nothing_is_tried_after_it(embedded: Stack, tmp_path: Path) -> None:
    nobody = {"XMCLOUD_URL": "http://127.0.0.1:1", "XMCLOUD_TOKEN": "t"}
    code, seen = smoke(embedded.environment | nobody, tmp_path)
    assert code == 1
    assert seen["Sign in"][0] == "FAILED"
    assert "http://127.0.0.1:1 does not answer" in seen["Sign in"][1]
    assert {seen[step][0] for step in STEPS[1:]} == {"not tried"}
    assert seen["Clean-up"][0] == "ok"
    assert processes_of(tmp_path) == []


def test_a_folder_where_nothing_was_applied_is_named(embedded: Stack, tmp_path: Path) -> None:
    code, seen = smoke(embedded.environment, tmp_path)
    assert code == 1
    assert "terraform" in seen["Sign in"][1]


def test_the_launch_for_vertex_is_one(embedded: Stack, tmp_path: Path) -> None:
    plan = embedded("launch", write_launch(tmp_path).name, "--dry-run", folder=tmp_path).stdout
    assert "vertex" in plan.lower()
