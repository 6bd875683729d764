"""What a script prints is copied, and nothing changes for the script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmcloud.runs.printed import PIECE_BYTES, Printed

BEGIN = """
import io, logging, os, sys
from pathlib import Path
from xmcloud.runs import tee
out, err = sys.stdout, sys.stderr
before = (out.isatty(), out.encoding, out.fileno())
copy = tee.Tee(Path(sys.argv[1]))
copy.attach()
assert (sys.stdout, sys.stderr) == (out, err)
assert (out.isatty(), out.encoding, out.fileno()) == before
"""


def script(folder: Path, program: str, status: int = 0) -> tuple[str, str, str]:
    """What came out, on stderr too, and the copy."""
    file = folder / "output"
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr, file.read_text()


def test_both_streams_are_copied_as_they_came(tmp_path: Path) -> None:
    out, err, copy = script(
        tmp_path,
        "print('größe', 1, sep='-')\n"
        "logging.warning('careful')\n"
        "sys.stdout.writelines(['a\\n', 'b\\n'])\n"
        "raise KeyError('last')",
        status=1,
    )
    assert out == "größe-1\na\nb\n"
    assert copy.startswith("größe-1\nWARNING:root:careful\na\nb\nTraceback")
    assert copy.endswith("KeyError: 'last'\n")
    assert err.endswith("KeyError: 'last'\n")


def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    program = "print('told', end='')\nos.kill(os.getpid(), 9)"
    assert script(tmp_path, program, status=-9)[2] == "told"


@pytest.mark.parametrize(
    "trouble",
    [
        "os.closerange(3, 1024); mine = open(sys.argv[1] + '.mine', 'w')",
        "copy._copy(3)",
        "os.close(copy._file)",
    ],
)
def test_a_copy_that_broke_is_not_the_scripts_affair(tmp_path: Path, trouble: str) -> None:
    out, err, copy = script(tmp_path, f"print('one')\n{trouble}\nprint('two', flush=True)")
    assert (out, err, copy) == ("one\ntwo\n", "", "one\n")
    mine = tmp_path / "output.mine"
    assert not mine.exists() or mine.read_text() == ""


def test_a_run_that_prints_without_end_is_cut(tmp_path: Path) -> None:
    program = "copy._left = 10\nfor n in range(9): print('four')"
    assert (
        script(tmp_path, program)[2]
        == "four\nfour\n\nxmcloud: output beyond 100 MB is not recorded\n"
    )


def test_streams_may_be_of_any_kind(tmp_path: Path) -> None:
    program = (
        "class Odd:\n"
        "    __slots__ = ()\n"
        "    def write(self, text): os.write(1, text.encode())\n"
        "    def flush(self): pass\n"
        "sys.stdout, sys.stderr = Odd(), None\n"
        "tee.Tee(Path(sys.argv[1])).attach()\n"
        "print('odd')"
    )
    assert script(tmp_path, program)[0] == "odd\n"


def test_what_was_printed_is_told_once_and_less_often_with_time(tmp_path: Path) -> None:
    file, now = tmp_path / "output", [0.0]
    printed = Printed(file, lambda: now[0])
    assert not printed.ripe
    assert printed.piece() == (0, b"")
    file.write_bytes(b"x" * (PIECE_BYTES + 1))
    assert printed.ripe
    assert printed.piece() == (0, b"x" * PIECE_BYTES)
    printed.taken(PIECE_BYTES)
    assert not printed.ripe
    assert printed.piece() == (PIECE_BYTES, b"x")
    pauses = []
    for _ in range(20):
        began = now[0]
        while not printed.ripe:
            now[0] += 0.25
        pauses.append(now[0] - began)
        printed.taken(0)
    assert (pauses[0], pauses[-1]) == (1.0, 5.0)
