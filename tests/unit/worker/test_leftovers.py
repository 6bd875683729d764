"""What an earlier run left behind."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from xmcloud.worker.identity import mark
from xmcloud.worker.leftovers import NameTaken, only_one, remove_leftovers

pytestmark = pytest.mark.anyio


def start(**variables: str) -> "subprocess.Popen[bytes]":
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True)


def attempt(folder: Path, job: str, fence: int = 1) -> Path:
    path = folder / f"{job}-{fence}"
    path.mkdir(parents=True)
    return path


def record(folder: Path, pid: int, created: float) -> None:
    (folder / "process.json").write_text(json.dumps({"pid": pid, "created": created}))


async def test_processes_of_earlier_attempts_are_killed(tmp_path: Path) -> None:
    marked, recorded = start(**mark("a" * 16, 1)), start()
    attempt(tmp_path, "a" * 16)
    folder = attempt(tmp_path, "b" * 16)
    record(folder, recorded.pid, psutil.Process(recorded.pid).create_time())
    assert await remove_leftovers(tmp_path) == 2
    assert [process.wait() for process in (marked, recorded)] == [-9, -9]
    assert not folder.exists()


async def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    other_fence, other_process = start(**mark("a" * 16, 2)), start()
    folder = attempt(tmp_path, "a" * 16, 1)
    record(folder, other_process.pid, psutil.Process(other_process.pid).create_time() - 60)
    assert await remove_leftovers(tmp_path) == 0
    for process in (other_fence, other_process):
        assert process.poll() is None
        process.kill()
        process.wait()


async def test_a_first_start_finds_nothing(tmp_path: Path) -> None:
    assert await remove_leftovers(tmp_path / "attempts") == 0


def test_a_name_is_for_one_worker_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "ant"
    taken = pytest.raises(NameTaken, match=f"'ant'.*process {os.getpid()}")
    with only_one(folder), taken, only_one(folder):
        pass
    with only_one(folder):
        pass
