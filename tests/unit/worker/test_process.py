"""Processes of jobs, with real ones."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest

from xmcloud.core.names import random_id
from xmcloud.worker.identity import mark
from xmcloud.worker.process import Launcher, Process

pytestmark = pytest.mark.anyio

MARK = mark(random_id(), 1)
SHOW_ARGV = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
LONG = 20.0
"""Seconds; ends a test that would fail, delays none that passes."""


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(tmp_path / "worker")
    yield launcher
    await launcher.close()


class Started:
    """A process and what it wrote."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self._launcher = launcher
        self.folder = folder
        self.log = folder / "output.log"

    async def spawn(self, *argv: str, environment: dict[str, str] | None = None) -> Process:
        variables = {"PATH": os.environ["PATH"]} if environment is None else environment
        return await self._launcher.spawn(
            argv, directory=self.folder, environment=variables, mark=MARK, log=self.log
        )

    async def run(self, *argv: str, environment: dict[str, str] | None = None) -> int:
        process = await self.spawn(*argv, environment=environment)
        async with asyncio.timeout(LONG):
            code = await process.wait()
            await process.bury(grace=5)
        return code

    async def wrote(self, lines: int) -> Sequence[int]:
        """The pids that a script printed, one a line, once so many are there."""
        async with asyncio.timeout(LONG):
            while True:
                if self.log.read_bytes().count(b"\n") >= lines:
                    return [int(line) for line in self.log.read_text().split()]
                await asyncio.sleep(0.01)


@pytest.fixture
def job(launcher: Launcher, tmp_path: Path) -> Started:
    return Started(launcher, tmp_path)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "argument",
    [
        "",
        " ",
        "two words",
        "new\nline",
        "'\"`",
        "$HOME $(id)",
        "*",
        "--x=ü→🙂",
        "\\",
        "x" * 102_400,
    ],
    ids=lambda argument: repr(argument)[:20],
)
async def test_arguments_arrive_byte_for_byte(job: Started, argument: str) -> None:
    assert await job.run(sys.executable, "-c", SHOW_ARGV, argument, "end") == 0
    assert job.log.read_bytes() == argument.encode() + b"\0end"


async def test_the_environment_is_exact(job: Started) -> None:
    program = "import os; print(sorted(os.environ.items()))"
    given = {"A": "line\nbreak", "B": "ü", "LC_ALL": "C.UTF-8"}
    assert await job.run(sys.executable, "-c", program, environment=given) == 0
    assert job.log.read_text() == f"{sorted({**given, **MARK}.items())}\n"


async def test_both_streams_go_to_one_file_in_order_and_nothing_can_be_read(job: Started) -> None:
    assert await job.run("sh", "-c", "echo one; echo two >&2; cat; echo three; pwd") == 0
    assert job.log.read_text() == f"one\ntwo\nthree\n{job.folder}\n"


@pytest.mark.parametrize("code", [0, 1, 255])
async def test_the_exit_code_is_told(job: Started, code: int) -> None:
    assert await job.run("sh", "-c", f"exit {code}") == code


async def test_the_signal_that_killed_is_told(job: Started) -> None:
    assert await job.run("sh", "-c", "kill -SEGV $$") == -signal.SIGSEGV


async def test_a_program_that_is_missing_is_an_oserror(job: Started) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        await job.spawn("no-such-program")
    assert raised.value.filename == "no-such-program"


async def test_a_folder_that_is_missing_is_named(job: Started, tmp_path: Path) -> None:
    job.folder = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as raised:
        await job.spawn("true")
    assert raised.value.filename == str(job.folder)


async def test_what_no_process_can_be_given_is_refused_and_the_next_one_starts(
    job: Started,
) -> None:
    with pytest.raises(ValueError, match="null"):
        await job.spawn("echo", "a\0b")
    assert await job.run("true") == 0


async def test_the_process_may_end_gracefully(job: Started) -> None:
    program = """if True:
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(3)))
        print(0, flush=True)
        signal.pause()
    """
    process = await job.spawn(sys.executable, "-c", program)
    await job.wrote(1)
    await process.end(grace=LONG)
    assert await process.wait() == 3
    assert job.log.read_text() == "0\nsaved\n"


async def test_one_that_ignores_sigterm_is_killed_after_the_grace_time(job: Started) -> None:
    process = await job.spawn("sh", "-c", "trap '' TERM; echo 0; while :; do sleep 0.01; done")
    await job.wrote(1)
    await process.end(grace=0.1)
    assert await process.wait() == -signal.SIGKILL


async def test_no_descendant_survives_the_end(job: Started) -> None:
    script = """
        sleep 1000 & echo $!
        setsid sh -c 'echo $$; exec sleep 1001' &
        (setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 0.01; done' &)
        echo $$; wait
    """
    process = await job.spawn("sh", "-c", script)
    pids = await job.wrote(4)
    assert all(alive(pid) for pid in pids)
    await process.end(grace=0.2)
    await process.wait()
    await process.bury(grace=0)
    assert [pid for pid in pids if alive(pid)] == []


async def test_what_a_process_leaves_running_is_ended_with_it(job: Started) -> None:
    script = """
        sleep 1000 & echo $!
        setsid sh -c 'echo $$; exec sleep 1001' &
        while test $(wc -l < output.log) -lt 2; do sleep 0.01; done
    """
    assert await job.run("sh", "-c", script) == 0
    assert [pid for pid in await job.wrote(2) if alive(pid)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs subreapers, which Linux has")
async def test_one_that_hides_its_origin_is_found_too(job: Started) -> None:
    """Its own session, no environment, its parent gone."""
    script = """
        (env -i setsid sh -c 'echo $$; exec sleep 1000' &)
        while test $(wc -l < output.log) -lt 1; do sleep 0.01; done
    """
    assert await job.run("sh", "-c", script) == 0
    assert [pid for pid in await job.wrote(1) if alive(pid)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs subreapers, which Linux has")
async def test_a_job_is_not_ended_with_another_one(launcher: Launcher, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first, second = (Started(launcher, folder) for folder in folders)
    environment = {"PATH": os.environ["PATH"]}
    staying = await launcher.spawn(
        ["sh", "-c", "sleep 1000 & echo $!; setsid sleep 1001 & echo $!; wait"],
        directory=second.folder,
        environment=environment,
        mark={**MARK, "XMCLOUD_ATTEMPT": "2"},
        log=second.log,
    )
    pids = await second.wrote(2)
    assert await first.run("sh", "-c", "setsid sleep 1000 &") == 0
    assert all(alive(pid) for pid in [staying.pid, *pids])
    await staying.end(grace=0)
    await staying.wait()
    assert [pid for pid in pids if alive(pid)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs subreapers, which Linux has")
async def test_ended_orphans_do_not_stay_as_zombies(job: Started) -> None:
    process = await job.spawn("sh", "-c", "(sh -c 'echo $$' &); sleep 1000")
    (orphan,) = await job.wrote(1)
    async with asyncio.timeout(LONG):
        while True:
            if not psutil.pid_exists(orphan):
                break
            await asyncio.sleep(0.01)
    await process.end(grace=0)
    assert await process.wait() == -signal.SIGKILL
