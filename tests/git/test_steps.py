"""Steps of a setup: what they print reaches the log, and no secret does."""

import asyncio
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.git.conftest import Machine
from xmcloud.worker.disk import DiskFull
from xmcloud.worker.setup import LOG, Access, StepFailed
from xmcloud.worker.steps import Steps

pytestmark = pytest.mark.anyio


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return tmp_path / "attempt"


@pytest.fixture
def steps(machine: Machine, attempt: Path) -> Steps:
    return machine.steps(attempt)


def shell(program: str) -> list[str]:
    return ["/bin/sh", "-c", program]


async def test_what_it_prints_is_in_the_log_in_order(steps: Steps, attempt: Path) -> None:
    (attempt / LOG).write_bytes(b"before\n")
    await steps(
        "talk", shell("echo out; echo err >&2; printf '10%%\\r20%%\\r'; printf '\\377 end'")
    )
    assert (attempt / LOG).read_bytes() == b"before\nout\nerr\n10%\r20%\r\xff end"
    assert not (attempt / "step.pipe").exists()


async def test_a_lot_of_output_is_no_problem(steps: Steps, attempt: Path) -> None:
    program = "import sys; sys.stdout.write('x' * 3_000_000 + '\\n' + 'y\\n' * 100_000)"
    await steps("talk", [sys.executable, "-c", program])
    assert (attempt / LOG).stat().st_size == 3_200_001


async def test_secrets_do_not_reach_the_log(steps: Steps, attempt: Path, machine: Machine) -> None:
    access = Access({**machine.base, "SECRET": "s3cret"}, ["s3cret"])
    lines = [
        "a $SECRET b",
        "https://ann:pass@word@host/x http://only-a-token@host/x",
        "ssh://git:pass@host/x ssh://git@host/x https://host/x",
    ]
    program = f'echo "{"; ".join(lines)}"; printf s3; sleep 0.01; echo cret; exit 3'
    with pytest.raises(StepFailed, match="Cannot talk: sh exited with code 3") as failed:
        await steps("talk", shell(program), access)
    shown = (
        "a *** b; https://***@host/x http://***@host/x; "
        "ssh://git:***@host/x ssh://git@host/x https://host/x\n***\n"
    )
    assert (attempt / LOG).read_text() == shown
    assert failed.value.output == shown.strip()
    assert "s3cret" not in repr(access)


async def test_only_its_own_lines_explain_a_failure(steps: Steps) -> None:
    await steps("begin", shell("echo fine"))
    with pytest.raises(StepFailed) as failed:
        await steps("go on", shell("echo broken; false"))
    assert str(failed.value) == "Cannot go on: sh exited with code 1.\nbroken"


async def test_a_full_disk_is_no_failure_of_the_job(steps: Steps) -> None:
    with pytest.raises(DiskFull, match="no space is left to unpack"):
        await steps("unpack", shell("echo 'write error: No space left on device'; false"))


async def test_a_full_disk_of_the_log_is_told(machine: Machine, small_disk: Path) -> None:
    steps = machine.steps(small_disk / "attempt")
    with pytest.raises(OSError, match="No space left"):
        await steps("talk", [sys.executable, "-c", "print('x' * 1_000_000)"])


async def test_a_cancelled_step_leaves_nothing_running(steps: Steps, attempt: Path) -> None:
    task = asyncio.create_task(steps("wait", shell("sleep 1000 & echo $!; wait")))
    pid = await asyncio.to_thread(number_in, attempt / LOG)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not psutil.pid_exists(pid)
    assert not (attempt / "step.pipe").exists()


def number_in(file: Path) -> int:
    deadline = time.monotonic() + 20
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(file.read_text())
