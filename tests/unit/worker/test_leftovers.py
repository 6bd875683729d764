"""What an earlier run left behind."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from xmcloud.core.names import random_id
from xmcloud.worker.identity import mark
from xmcloud.worker.leftovers import (
    NameTaken,
    beyond_recovery,
    only_one,
    recoverable,
    remove_leftovers,
)

pytestmark = pytest.mark.anyio

A, B = random_id(), random_id()


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
    marked, recorded = start(**mark(A, 1)), start()
    attempt(tmp_path, A)
    folder = attempt(tmp_path, B)
    record(folder, recorded.pid, psutil.Process(recorded.pid).create_time())
    assert await remove_leftovers(beyond_recovery(tmp_path) + recoverable(tmp_path)) == 2
    assert [process.wait() for process in (marked, recorded)] == [-9, -9]
    assert not folder.exists()


async def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    other_fence, other_process = start(**mark(A, 2)), start()
    folder = attempt(tmp_path, A, 1)
    record(folder, other_process.pid, psutil.Process(other_process.pid).create_time() - 60)
    assert await remove_leftovers([folder]) == 0
    for process in (other_fence, other_process):
        assert process.poll() is None
        process.kill()
        process.wait()


async def test_a_first_start_finds_nothing(tmp_path: Path) -> None:
    assert recoverable(tmp_path / "attempts") == beyond_recovery(tmp_path / "attempts") == []
    assert await remove_leftovers([]) == 0


def test_attempts_that_can_go_on_are_told_from_others(tmp_path: Path) -> None:
    """Whether a process that was started still runs, or how it ended, the keeper may know."""
    folders = {name: attempt(tmp_path, name) for name in ("begun", "end", "told", "box", "new")}
    record(folders["begun"], os.getpid(), 0.0)
    (folders["end"] / "exit.json").write_text("{}")
    (folders["told"] / "ending.json").write_text("{}")
    (folders["box"] / "container").touch()
    assert beyond_recovery(tmp_path) == [folders.pop("new")]
    assert set(recoverable(tmp_path)) == set(folders.values())


async def test_a_folder_of_a_container_that_is_still_there_is_kept(tmp_path: Path) -> None:
    folder = attempt(tmp_path, A)
    (folder / "container").touch()
    await remove_leftovers([folder])
    assert folder.exists()


def test_a_name_is_for_one_worker_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "ant"
    taken = pytest.raises(NameTaken, match=f"'ant'.*process {os.getpid()}")
    with only_one(folder), taken, only_one(folder):
        pass
    with only_one(folder):
        pass
