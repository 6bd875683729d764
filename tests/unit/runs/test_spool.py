"""What a script leaves behind is what is found."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.writer import FileWriter

from xmcloud.core.outputs import RESULTS_LIMIT, fitting
from xmcloud.runs.joined import EVERYWHERE
from xmcloud.runs.run import Run
from xmcloud.runs.spool import Spool
from xmcloud.xm_cloud.left_behind import LeftBehind, left_behind

WRITES_EVENTS = """
import os, signal, sys
from pathlib import Path
import xmcloud
run = xmcloud.init()
from tensorboardX import SummaryWriter
run.log(shared=7.0)
for folder in ("runs/one/train", "runs/one/eval"):
    writer = SummaryWriter(folder)
    for step in range(3):
        writer.add_scalar("loss", 1 / (step + 1), step)
    writer.add_text("text", "no scalar")
    writer.add_histogram("weights", [1.0, 2.0, 3.0], 0)
    writer.close()
Path("other").mkdir()
Path("other/events.out.tfevents.1").write_bytes(b"not of this run")
os.utime("other/events.out.tfevents.1", (1, 1))
run.tensorboard("other")
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(spool=Spool(str(tmp_path / "outputs")))


def left(folder: Path) -> LeftBehind:
    stage = folder / "stage"
    stage.mkdir()
    return left_behind(folder / "outputs", EVERYWHERE, stage)


def test_what_the_run_keeps_is_found_by_name(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"first")
    run.artifact("model", model)
    model.write_bytes(b"second")
    run.text("note", "hello")
    run.figure("curve", b"png")
    run.summary["best"] = 1
    run.summary.update(worst=float("inf"))
    run.log(3, loss=0.5)
    found = left(tmp_path)
    assert found.notes == []
    assert {name: path.read_bytes() for name, path in found.files.items() if name != "points"} == {
        "model": b"first",
        "note": b"hello",
        "curve": b"png",
        "names": b'"loss"\n',
    }
    assert found.files["points"].stat().st_size == 32
    assert found.results == {
        "summary": {"best": 1, "worst": "inf"},
        "series": {"loss": {"last": 0.5, "min": 0.5, "max": 0.5, "count": 1}},
    }


def test_what_was_kept_last_under_a_name_counts(run: Run, tmp_path: Path) -> None:
    run.text("note", "first")
    run.text("note", "second")
    assert left(tmp_path).files["note"].read_bytes() == b"second"


def test_the_names_of_series_are_taken(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.text("points", "x")
    run.artifact("gone", tmp_path / "gone")
    said = capsys.readouterr().err
    assert "points is not stored: the run's own series are called that" in said
    assert "gone is not stored: [Errno 2]" in said
    assert left(tmp_path).files == {}


def test_an_input_is_told_by_its_digest_and_stored_if_it_is_small(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_FILE_LIMIT", "200")
    small, large, folder = tmp_path / "small", tmp_path / "large", tmp_path / "folder"
    small.write_bytes(b"1,2")
    large.write_bytes(bytes(201))
    (folder / "a").mkdir(parents=True)
    (folder / "a/b.csv").write_bytes(b"3")
    for name in ("small", "large", "folder"):
        assert run.input(name, tmp_path / name) == tmp_path / name
    listing = f"{hashlib.sha256(b'3').hexdigest()}  a/b.csv\n".encode()
    found = left(tmp_path)
    assert found.results["inputs"] == {
        name: {"path": str(tmp_path / name), "size": len(content), "digest": digest(content)}
        for name, content in {"small": b"1,2", "large": bytes(201), "folder": listing}.items()
    }
    stored = {name: path.read_bytes() for name, path in found.files.items()}
    assert stored == {"inputs/small": b"1,2", "inputs/folder": listing}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_event_files_become_series_even_of_a_killed_process(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITES_EVENTS],
        cwd=tmp_path,
        env=job_environment(tmp_path),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    found = left(tmp_path)
    assert found.notes == []
    seen = {"last": pytest.approx(1 / 3), "min": pytest.approx(1 / 3), "max": 1.0, "count": 3}
    assert found.results["series"] == {
        "shared": {"last": 7.0, "min": 7.0, "max": 7.0, "count": 1},
        "eval/loss": seen,
        "train/loss": seen,
    }
    stored = sorted(os.path.dirname(name) for name in found.files)
    assert stored == ["", "", "tensorboard/runs/one/eval", "tensorboard/runs/one/train"]
    assert json.loads(found.files["names"].read_bytes().splitlines()[1]) == "eval/loss"


def test_event_files_in_the_folder_itself_count_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "outputs").symlink_to("real")
    outputs = tmp_path / "outputs" / "boards"
    outputs.mkdir()
    writer = FileWriter(str(outputs))
    writer.add_summary(Summary(value=[Summary.Value(tag="loss", simple_value=1)]), 1)
    writer.close()
    Run(spool=Spool(str(tmp_path / "outputs"))).tensorboard(outputs)
    found = left(tmp_path)
    assert found.results["series"]["loss"]["count"] == 1
    assert sorted(os.path.dirname(name) for name in found.files) == ["", "", "tensorboard/boards"]


def test_a_full_disk_costs_the_points_alone(run: Run, tmp_path: Path, small_disk: Path) -> None:
    run.log(loss=1.0)
    run.text("note", "hello")
    with contextlib.suppress(OSError):
        (small_disk / "filling").write_bytes(bytes(2**26))
    found = left_behind(tmp_path / "outputs", EVERYWHERE, small_disk)
    assert found.files.keys() == {"note"}
    assert ["points are not recorded" in note for note in found.notes] == [True]


def job_environment(folder: Path) -> dict[str, str]:
    own = {name: v for name, v in os.environ.items() if not name.startswith("XMCLOUD_")}
    return own | {"XMCLOUD_JOB_ID": "a" * 16, "XMCLOUD_OUTPUTS": str(folder / "outputs")}


def test_results_are_cut_to_what_a_job_holds() -> None:
    series = {f"series {n}": {"last": 0.123456789, "count": n} for n in range(1000)}
    found = fitting({"summary": {"best": 1}, "series": series})
    assert RESULTS_LIMIT - 300 < len(json.dumps(found)) <= RESULTS_LIMIT
    assert found["summary"] == {"best": 1}
    assert found["cut"] is True
    assert list(found["series"])[:2] == ["series 0", "series 1"]
    assert fitting({"a": 1}) == {"a": 1}
    assert fitting({"a": "x" * RESULTS_LIMIT}) == {"cut": True}
