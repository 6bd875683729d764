"""How a script ended, as it is told while it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
import json, os, sys, signal, threading
from xmcloud.runs.endings import Endings
Endings(lambda *outcome: print(json.dumps(outcome), flush=True))
"""

DONE = ["completed", "exited with code 0", 0]


def ending(folder: Path, body: str) -> tuple[list[list[object]], int]:
    """What was told, and the exit code."""
    script = folder / "script.py"
    script.write_text(PREAMBLE + body)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


@pytest.mark.parametrize(
    ("body", "outcome", "code"),
    [
        ("", DONE, 0),
        ("sys.exit()", DONE, 0),
        ("sys.exit(3)", ["failed", "exited with code 3", 3], 3),
        ("raise SystemExit(4)", ["failed", "exited with code 4", 4], 4),
        ("sys.exit('no data')", ["failed", "exited with code 1: no data", 1], 1),
        ("try: sys.exit(3)\nexcept SystemExit: pass", DONE, 0),
        (
            "try: sys.exit(3)\nexcept SystemExit as error:\n    kept = error\n    raise",
            ["failed", "exited with code 3", 3],
            3,
        ),
        (
            "def f():\n    try: sys.exit(5)\n    finally: json.dumps(1)\nf()",
            ["failed", "exited with code 5", 5],
            5,
        ),
        (
            "import argparse\nargparse.ArgumentParser().parse_args(['--what'])",
            ["failed", "exited with code 2", 2],
            2,
        ),
        ("t = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()", DONE, 0),
        (
            "class Bad(ValueError): pass\nraise Bad('no\\nway')",
            ["failed", "Bad: no way", 1],
            1,
        ),
        ("raise KeyboardInterrupt", ["stopped", "interrupted", None], -signal.SIGINT),
        (
            "os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()",
            ["stopped", "stopped by SIGTERM", None],
            -signal.SIGTERM,
        ),
    ],
)
def test_the_end_is_told_and_stays_as_it_was(
    tmp_path: Path, body: str, outcome: list[object], code: int
) -> None:
    assert ending(tmp_path, body) == ([outcome], code)


def test_a_handler_of_the_script_is_left_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"{PREAMBLE}os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout) == ["failed", "exited with code 7", 7]
    assert done.returncode == 7


def test_a_forked_child_tells_nothing(tmp_path: Path) -> None:
    body = "if (child := os.fork()) == 0: sys.exit(9)\nos.waitpid(child, 0)"
    assert ending(tmp_path, body) == ([DONE], 0)


def test_the_own_hook_of_the_script_still_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.excepthook = lambda *_: print('mine')\n{PREAMBLE}1/0")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[0] == "mine"
    assert "ZeroDivisionError" in done.stdout
