"""What becomes of jobs when the worker or its keeper is killed, with real processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from xmcloud.core.names import random_id
from xmcloud.worker import keeper
from xmcloud.worker.identity import mark
from xmcloud.worker.process import Launcher, Process
from xmcloud.worker.running import Vanished

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs subreapers, which Linux has"),
]

LONG = 20.0
"""Seconds; ends a test that would fail, delays none that passes."""

WORKER = """if True:
    import asyncio, json, sys
    from pathlib import Path
    from xmcloud.worker.identity import mark
    from xmcloud.worker.process import Launcher

    async def main(home, token, scripts):
        launcher = Launcher(Path(home, "worker"))
        for name, script in json.loads(scripts).items():
            folder = Path(home, f"{name}-1")
            folder.mkdir()
            await launcher.spawn(
                ["sh", "-c", script], directory=folder, environment={"PATH": "/usr/bin:/bin"},
                mark=mark(name + token, 1), log=folder / "log", exit_file=folder / "exit.json",
            )
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main(*sys.argv[1:]))
"""
"""A worker that starts shell scripts as jobs, and then waits to be killed."""

GATE = "mkfifo gate; echo; read x < gate; "
"""Waits in a script until `Machine.open` lets it go on."""


class Machine:
    """A worker's folders, and what runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._token = random_id()
        self._launchers: list[Launcher] = []

    def launcher(self) -> Launcher:
        self._launchers.append(Launcher(self.folder / "worker"))
        return self._launchers[-1]

    async def killed_worker(self, **scripts: str) -> None:
        """Starts the scripts, each past its `echo`, and is killed."""
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER),
            *(str(self.folder), self._token, json.dumps(scripts)),
            stdout=subprocess.PIPE,
        )
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
        await until(lambda: all((self.of(name) / "log").stat().st_size for name in scripts))
        worker.kill()
        await worker.wait()

    def mark(self, name: str) -> dict[str, str]:
        return mark(name + self._token, 1)

    def of(self, name: str) -> Path:
        return self.folder / f"{name}-1"

    def pid(self, name: str) -> int:
        return int(json.loads((self.of(name) / "process.json").read_text())["pid"])

    def code(self, name: str) -> int:
        return int(json.loads((self.of(name) / "exit.json").read_text())["code"])

    async def open(self, name: str) -> None:
        def opened() -> bool:
            try:
                gate = os.open(self.of(name) / "gate", os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody waits there yet
                return False
            os.write(gate, b"go\n")
            os.close(gate)
            return True

        await until(opened)

    async def spawn(self, launcher: Launcher, name: str, script: str) -> Process:
        self.of(name).mkdir()
        return await launcher.spawn(
            ["sh", "-c", script],
            directory=self.of(name),
            environment={"PATH": os.environ["PATH"]},
            mark=self.mark(name),
            log=self.of(name) / "log",
            exit_file=self.of(name) / "exit.json",
        )

    def keepers(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_keeper(process)]

    def _is_keeper(self, process: psutil.Process) -> bool:
        try:
            is_one = keeper.__file__ in process.cmdline()
            return is_one and process.cwd() == str(self.folder / "worker")
        except psutil.Error:
            return False

    async def close(self) -> None:
        for launcher in self._launchers:
            await launcher.close()
        for found in self.keepers():
            for process in found.children(recursive=True):
                process.kill()
        await until(lambda: not self.keepers())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LONG):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    await machine.close()


ENDS = {"zero": ("exit 0", 0), "three": ("exit 3", 3), "kill": ("kill -KILL $$", -9)}
ENDS["fault"] = ("kill -SEGV $$", -11)


async def test_jobs_outlive_a_killed_worker_and_tell_how_they_end(machine: Machine) -> None:
    await machine.killed_worker(**{name: GATE + script for name, (script, _) in ENDS.items()})
    launcher = machine.launcher()
    for name, (_, code) in ENDS.items():
        process = await launcher.adopt(machine.of(name), machine.mark(name))
        assert process is not None
        assert (process.pid, process.ended) == (machine.pid(name), False)
        await machine.open(name)
        async with asyncio.timeout(LONG):
            assert await process.wait() == code
            await process.bury(0)
        assert machine.code(name) == code


async def test_what_ended_while_no_worker_was_there_is_known(machine: Machine) -> None:
    await machine.killed_worker(**{name: GATE + script for name, (script, _) in ENDS.items()})
    for name in ENDS:
        await machine.open(name)
        await until((machine.of(name) / "exit.json").exists)
    launcher = machine.launcher()
    for name, (_, code) in ENDS.items():
        process = await launcher.adopt(machine.of(name), machine.mark(name))
        assert process is not None
        assert (process.ended, await process.wait()) == (True, code)
        await process.bury(0)
    assert await launcher.adopt(machine.of("zero"), machine.mark("zero")) is not None


async def test_an_adopted_job_is_ended_with_all_its_kin(machine: Machine) -> None:
    script = "(env -i setsid sh -c 'echo $$ >one; exec sleep 1000' &); setsid sleep 1001 & echo $!"
    await machine.killed_worker(job=f"{script}; wait")
    await until((machine.of("job") / "one").exists)
    launcher = machine.launcher()
    process = await launcher.adopt(machine.of("job"), machine.mark("job"))
    assert process is not None
    orphan, child = (int((machine.of("job") / name).read_text()) for name in ("one", "log"))
    assert lives(orphan)
    await process.end(0)
    assert await process.wait() == -signal.SIGKILL
    await process.bury(0)
    assert [pid for pid in (process.pid, orphan, child) if lives(pid)] == []


async def test_nothing_is_adopted_that_nobody_knows_of(machine: Machine) -> None:
    machine.of("other").mkdir()
    assert await machine.launcher().adopt(machine.of("other"), machine.mark("other")) is None
    assert machine.keepers() == []


async def test_the_keeper_is_asked_again_after_a_second_kill(machine: Machine) -> None:
    await machine.killed_worker(job=f"{GATE} exit 5")
    before = machine.keepers()
    await machine.killed_worker(other=f"{GATE} exit 6")
    assert machine.keepers() == before
    launcher = machine.launcher()
    for name, code in {"job": 5, "other": 6}.items():
        await machine.open(name)
        process = await launcher.adopt(machine.of(name), machine.mark(name))
        assert process is not None
        assert await process.wait() == code
        await process.bury(0)


async def test_a_keeper_without_a_worker_ends_with_the_last_job(machine: Machine) -> None:
    await machine.killed_worker(job=f"{GATE} exit 0")
    (found,) = machine.keepers()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        found.send_signal(number)
    await machine.open("job")
    await until(lambda: not lives(found.pid))
    assert machine.code("job") == 0


async def test_when_the_keeper_is_killed_its_jobs_are_ended_and_the_next_one_starts(
    machine: Machine,
) -> None:
    before = set(psutil.Process().children())
    launcher = machine.launcher()
    script = "(env -i setsid sh -c 'echo $$ >one; exec sleep 1000' &); setsid sleep 1001 & echo $!"
    process = await machine.spawn(launcher, "job", f"{script}; wait")
    one, two = machine.of("job") / "one", machine.of("job") / "log"
    await until(lambda: one.exists() and one.read_text() and two.read_text())
    (found,) = machine.keepers()
    found.kill()
    with pytest.raises(Vanished):
        async with asyncio.timeout(LONG):
            await process.wait()
    pids = [process.pid, int(one.read_text()), int(two.read_text())]
    assert [pid for pid in pids if lives(pid)] == []
    after = await machine.spawn(launcher, "next", "exit 4")
    assert await after.wait() == 4
    await after.bury(0)
    assert len(machine.keepers()) == 1
    assert set(psutil.Process().children()) - before == set(machine.keepers())


async def test_a_process_that_was_just_being_started_when_the_keeper_was_killed_is_ended(
    machine: Machine,
) -> None:
    before = set(psutil.Process().children())
    launcher = machine.launcher()
    await (await machine.spawn(launcher, "first", "exit 0")).wait()
    (found,) = machine.keepers()
    found.suspend()
    spawning = asyncio.create_task(machine.spawn(launcher, "job", "sleep 1000"))
    for _ in range(5):  # until it was asked for
        await asyncio.sleep(0)
    found.kill()
    with pytest.raises(Vanished, match="keeper"):
        async with asyncio.timeout(LONG):
            await spawning
    assert set(psutil.Process().children()) - before == set()
    assert await (await machine.spawn(launcher, "next", "exit 4")).wait() == 4


async def test_the_newest_worker_counts(machine: Machine) -> None:
    older, newer = machine.launcher(), machine.launcher()
    process = await machine.spawn(older, "job", f"{GATE} exit 3")
    await until((machine.of("job") / "log").read_bytes)
    adopted = await newer.adopt(machine.of("job"), machine.mark("job"))
    assert adopted is not None
    with pytest.raises(Vanished):
        async with asyncio.timeout(LONG):
            await process.wait()
    await machine.open("job")
    assert await adopted.wait() == 3
    await adopted.bury(0)


async def test_a_job_is_killed_though_the_keeper_does_not_answer(machine: Machine) -> None:
    process = await machine.spawn(machine.launcher(), "job", "exec sleep 1000")
    (found,) = machine.keepers()
    found.suspend()
    await process.end(0)
    assert not lives(process.pid)
    found.resume()
    assert await process.wait() == -signal.SIGKILL


def test_the_faster_loop_will_do_too(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        machine = Machine(tmp_path)
        launcher = machine.launcher()
        process = await machine.spawn(launcher, "job", "exit 3")
        assert await process.wait() == 3
        await process.bury(0)
        process = await machine.spawn(launcher, "lost", "sleep 1000")
        machine.keepers()[0].kill()
        with pytest.raises(Vanished):
            await process.wait()
        assert await (await machine.spawn(launcher, "next", "exit 4")).wait() == 4
        await machine.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), LONG))


async def test_jobs_whose_worker_and_keeper_were_killed_are_ended(machine: Machine) -> None:
    await machine.killed_worker(job="setsid sleep 1000 & echo $!; wait")
    machine.keepers()[0].kill()
    child = int((machine.of("job") / "log").read_text())
    assert lives(machine.pid("job"))
    assert await machine.launcher().adopt(machine.of("job"), machine.mark("job")) is None
    assert [pid for pid in (machine.pid("job"), child) if lives(pid)] == []


async def test_many_quick_jobs_leave_neither_descriptors_nor_processes(machine: Machine) -> None:
    launcher = machine.launcher()

    async def run(number: int) -> int:
        process = await machine.spawn(launcher, f"j{number}", f"exit {number % 50}")
        code = await process.wait()
        await process.bury(0)
        return code

    await run(0)
    (found,) = machine.keepers()
    before = psutil.Process().num_fds(), found.num_fds()
    async with asyncio.timeout(2 * LONG):
        for start in range(1, 201, 4):
            numbers = range(start, start + 4)
            assert await asyncio.gather(*map(run, numbers)) == [each % 50 for each in numbers]
    assert (psutil.Process().num_fds(), found.num_fds()) == before
    assert found.children() == []
    assert [machine.code(f"j{number}") for number in range(51)] == [*range(50), 0]


async def test_a_spawn_that_is_given_up_leaves_nothing_running(machine: Machine) -> None:
    launcher = machine.launcher()
    await (await machine.spawn(launcher, "first", "exit 0")).wait()
    spawning = asyncio.create_task(machine.spawn(launcher, "job", "sleep 1000"))
    await asyncio.sleep(0)
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    (found,) = machine.keepers()
    await until(lambda: found.children() == [])
    # A shell whose child was killed first says so in its exit code.
    assert machine.code("job") in (-signal.SIGKILL, 128 + signal.SIGKILL)


async def test_a_job_keeps_to_its_cores_and_others_do_not(machine: Machine) -> None:
    launcher = machine.launcher()
    cores = sorted(os.sched_getaffinity(0))
    show = "import os; print(*sorted(os.sched_getaffinity(0)))"
    for cpus in ([cores[-1]], []):
        process = await launcher.spawn(
            [sys.executable, "-c", show],
            directory=machine.folder,
            environment={},
            mark=machine.mark("job"),
            log=machine.folder / "log",
            cpus=cpus,
        )
        assert await process.wait() == 0
        await process.bury(0)
    lines = (machine.folder / "log").read_text().splitlines()
    assert lines == [str(cores[-1]), " ".join(map(str, cores))]


async def test_a_pipe_that_nobody_reads_is_an_error_and_no_end(machine: Machine) -> None:
    launcher = machine.launcher()
    machine.of("job").mkdir()
    os.mkfifo(machine.of("job") / "log")
    spawning = launcher.spawn(
        ["true"],
        directory=machine.folder,
        environment={"PATH": os.environ["PATH"]},
        mark=machine.mark("job"),
        log=machine.of("job") / "log",
    )
    with pytest.raises(OSError, match="No such device"):
        await spawning
    assert await (await machine.spawn(launcher, "next", "exit 2")).wait() == 2


async def test_the_keeper_has_no_settings_of_the_worker(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_TOKEN", "secret")
    await (await machine.spawn(machine.launcher(), "job", "exit 0")).wait()
    (found,) = machine.keepers()
    assert "XMCLOUD_TOKEN" not in found.environ()
    assert found.environ()["PATH"] == os.environ["PATH"]


async def test_a_long_path_of_the_worker_is_no_obstacle(tmp_path: Path) -> None:
    machine = Machine(tmp_path / ("x" * 100) / ("y" * 100))
    machine.folder.mkdir(parents=True)
    assert await (await machine.spawn(machine.launcher(), "job", "exit 9")).wait() == 9
    await machine.close()


async def test_an_exit_for_which_there_is_no_space_is_written_later(
    small_disk: Path, tmp_path: Path
) -> None:
    machine = Machine(small_disk)
    await machine.killed_worker(job=f"{GATE} exit 7")
    fill = small_disk / "fill"
    with pytest.raises(OSError, match="No space"):
        fill.write_bytes(b"x" * 1024 * 1024)
    await machine.open("job")
    await until(lambda: not lives(machine.pid("job")))
    launcher = machine.launcher()
    process = await launcher.adopt(machine.of("job"), machine.mark("job"))
    assert process is not None
    assert await process.wait() == 7
    fill.unlink()
    await until(lambda: (machine.of("job") / "exit.json").exists() and machine.code("job") == 7)
    await process.bury(0)
    await machine.close()


async def test_the_record_tells_when_a_process_began(machine: Machine) -> None:
    process = await machine.spawn(machine.launcher(), "job", GATE)
    record = json.loads((machine.of("job") / "process.json").read_text())
    assert abs(record["created"] - psutil.Process(process.pid).create_time()) < 1.5
    await process.end(0)
    ended = json.loads((machine.of("job") / "exit.json").read_text())
    assert (ended["pid"], ended["code"]) == (process.pid, -signal.SIGKILL)
    assert record["created"] <= ended["at"] <= time.time()
