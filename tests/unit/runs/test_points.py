"""Numbers that were logged are there, whatever happens to the process."""

import math
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xmcloud.core.series import NAMES, POINTS, Point, Series, Table, points
from xmcloud.runs.points import Points


def records(folder: Path) -> list[Point]:
    return list(points((folder / NAMES).read_bytes(), [(folder / POINTS).read_bytes()]))


def glance(folder: Path) -> dict[str, Series]:
    table = Table()
    for point in records(folder):
        table.record(point)
    return table.glance()


KILLED = """
import os, signal, sys
from pathlib import Path
from xmcloud.runs.points import Points
points = Points(Path(sys.argv[1]))
for number in range(40_000):
    points.log(number, {"loss": number / 2, "acc": 1.0})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    found = glance(tmp_path)
    assert found["loss"] == {"last": 39_999 / 2, "min": 0.0, "max": 39_999 / 2, "count": 40_000}
    assert found["acc"]["count"] == 40_000


def test_points_come_back_in_order_with_their_steps(tmp_path: Path) -> None:
    log = Points(tmp_path)
    log.log(7, {"a": 1})
    log.log(None, {"b": 2.5, "a": -3})
    log.log(None, {"a": math.inf})
    found = [(name, step, value) for name, step, value, _ in records(tmp_path)]
    assert found == [("a", 7, 1.0), ("b", 0, 2.5), ("a", 0, -3.0), ("a", 1, math.inf)]
    assert glance(tmp_path)["a"] == {"last": "inf", "min": -3.0, "max": "inf", "count": 3}


def test_threads_share_the_file(tmp_path: Path) -> None:
    log = Points(tmp_path)

    def work(name: str) -> None:
        for number in range(20_000):
            log.log(number, {name: number})

    threads = [threading.Thread(target=work, args=(f"series {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: each["count"] for name, each in glance(tmp_path).items()} == {
        f"series {n}": 20_000 for n in range(4)
    }


def test_what_is_no_number_leaves_no_point(tmp_path: Path) -> None:
    log = Points(tmp_path)
    with pytest.raises(struct.error):
        log.log(0, {"name": "text"})
    assert records(tmp_path) == []


def test_a_full_disk_is_said_once_and_not_the_end(small_disk: Path) -> None:
    program = (
        "import sys\n"
        "from xmcloud.runs.run import Run\n"
        "from xmcloud.runs.spool import Spool\n"
        "run = Run(spool=Spool(sys.argv[1]))\n"
        "for _ in range(3): run.log(loss=1)\n"
        "run.log(loss='text')\n"
        "print('done')\n"
    )
    command = [sys.executable, "-c", program, str(small_disk / "spool")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
    assert done.stderr == ("xmcloud: points are not recorded: [Errno 28] No space left on device\n")


def test_a_file_that_was_cut_off_has_the_points_before(tmp_path: Path) -> None:
    Points(tmp_path).log(1, {"a": 1.0, "b": 2.0})
    whole = (tmp_path / POINTS).read_bytes()
    assert [p[:3] for p in points(b'"a"\n"b"\n', [whole[:63]])] == [("a", 1, 1.0)]
    assert [p[:3] for p in points(b'"a"\n', [whole[:64]])] == [("a", 1, 1.0)]
