"""Numbers that were logged are there, whatever happens to the process."""

import json
import math
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xmcloud.runs.points import Points, glance, records
from xmcloud.runs.spool import RESULTS_LIMIT, Spool, fitting, series_in

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
    points = Points(tmp_path)
    points.log(7, {"a": 1})
    points.log(None, {"b": 2.5, "a": -3})
    points.log(None, {"a": math.inf})
    found = [(name, step, value) for name, step, value, _ in records(tmp_path)]
    assert found == [("a", 7, 1.0), ("b", 0, 2.5), ("a", 0, -3.0), ("a", 1, math.inf)]
    assert glance(tmp_path)["a"] == {"last": "inf", "min": -3.0, "max": "inf", "count": 3}


def test_threads_share_the_file(tmp_path: Path) -> None:
    points = Points(tmp_path)

    def work(name: str) -> None:
        for number in range(20_000):
            points.log(number, {name: number})

    threads = [threading.Thread(target=work, args=(f"series {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: each["count"] for name, each in glance(tmp_path).items()} == {
        f"series {n}": 20_000 for n in range(4)
    }


def test_what_is_no_number_leaves_no_point(tmp_path: Path) -> None:
    points = Points(tmp_path)
    with pytest.raises(struct.error):
        points.log(0, {"name": "text"})
    assert list(records(tmp_path)) == []


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


def test_a_copy_is_kept_of_what_may_change(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    original = tmp_path / "model"
    original.write_bytes(b"first")
    kept = spool.keep(original)
    original.write_bytes(b"second")
    assert Path(kept).read_bytes() == b"first"
    assert series_in(str(tmp_path / "spool")) == {}


def test_results_are_cut_to_what_a_job_holds() -> None:
    series = {f"series {n}": {"last": 0.123456789, "count": n} for n in range(1000)}
    found = fitting({"summary": {"best": 1}, "series": series})
    assert len(json.dumps(found)) <= RESULTS_LIMIT
    assert found["summary"] == {"best": 1}
    assert found["cut"] is True
    assert list(found["series"])[:2] == ["series 0", "series 1"]
    assert fitting({"a": 1}) == {"a": 1}
