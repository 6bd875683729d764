"""What jobs write, from their processes to people's screens."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.stack import Stack, Trace, suspend, until

BAR = """
import os, sys, time
from pathlib import Path
n = 0
while not Path("go").exists():
    n += 1
    os.write(2, b"\\r%d of many" % n)
    time.sleep(0.001)
    if n == 100:
        Path("running").touch()
os.write(2, b"\\rall of many\\nnext\\r\\n")
"""
ODD = """
import os
out = os.fdopen(1, "wb")
out.write("größe ".encode()[:5] + b"\\xff bytes\\n" + b"0123456789" * 1_000_000 + b"\\nno newline")
"""


def _script(folder: Path, name: str, program: str) -> str:
    (folder / name).write_text(program)
    return f"exec {sys.executable} {name}"


def test_a_progress_bar_moves_while_it_runs_and_is_one_line_afterwards(
    embedded: Stack, trace: Trace
) -> None:
    embedded.up()
    experiment = embedded.submit(trace.folder, _script(trace.folder, "bar.py", BAR))
    terminal = embedded.on_terminal("logs", "-f", f"{experiment}/1")
    until((trace.folder / "running").exists, "the bar moves")
    terminal.until_shown(" of many")
    shown = len(terminal.text)
    until(lambda: len(terminal.text) > shown, "another state is shown")
    trace.open()
    assert terminal.end() == 0
    assert "all of many" in terminal.text

    (job,) = embedded.ended(experiment)
    assert embedded("logs", job.id).stdout == "all of many\nnext\n"
    stored = embedded.whole_log(job)
    assert stored.endswith(b"\rall of many\nnext\r\n")
    assert stored.count(b"\r") <= terminal.text.count("of many") + 1


def test_bytes_that_are_no_text_and_long_lines_are_shown(embedded: Stack, trace: Trace) -> None:
    embedded.up()
    experiment = embedded.submit(trace.folder, _script(trace.folder, "odd.py", ODD))
    embedded.ended(experiment)
    expected = "grö\ufffd\ufffd bytes\n" + "0123456789" * 1_000_000 + "\nno newline\n"
    assert embedded("logs", experiment).stdout == expected
    for encoding, sign in (("ascii", b"gr???"), ("latin-1", b"gr\xf6??")):
        printed = subprocess.run(
            embedded.argv("logs", experiment),
            env=embedded.environment | {"PYTHONIOENCODING": encoding},
            capture_output=True,
            check=True,
        )
        assert printed.stdout.startswith(sign + b" bytes\n")
        assert printed.stderr == b""


@pytest.mark.parametrize("bar", [True, False], ids=["bar", "lines"])
def test_a_control_plane_that_is_silent_for_a_while_gets_everything_once(
    embedded: Stack, trace: Trace, bar: bool
) -> None:
    embedded.up()
    states = r"printf '%s\r' $(seq 1 3000); echo; " if bar else ""
    script = trace.script(between=f"echo first; {states}seq 1 300000")
    experiment = embedded.submit(trace.folder, script)
    trace.until("start", 1)
    plane = embedded.process("control-plane")
    suspend(plane)
    trace.open()
    trace.until("end", 1)
    plane.resume()

    (job,) = embedded.ended(experiment)
    lines = embedded("logs", job.id).stdout.splitlines()
    assert lines == ["first", *(["3000"] if bar else []), *map(str, range(1, 300_001))]
