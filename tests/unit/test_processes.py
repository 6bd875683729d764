"""Background processes: real ones, among them some that do not want to go."""

import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from xmcloud.local.processes import (
    AlreadyRunning,
    DamagedRecords,
    NotReady,
    NotStarted,
    ProcessDied,
    Processes,
    ProcessRecord,
    alive,
    lives,
    members,
    stop,
    wait_until_ready,
)

SLEEPER = ["sleep", "600"]
# Ignores SIGTERM, and so does its child.
STUBBORN = ["sh", "-c", "trap '' TERM; sleep 600 & echo ready; wait; sleep 600"]
# A shell that waits for its child, as the launchers of Java programs do.
LAUNCHER = ["sh", "-c", "sleep 600; true"]
# Its child leaves the session and the process group.
LEAVER = [
    sys.executable,
    "-c",
    """
import signal, subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("ready", flush=True)
signal.pause()
""",
]
# Its child leaves the group and knows nothing of the environment.
STRANGER = """
import signal, subprocess
subprocess.Popen(
    ["/bin/sh", "-c", "trap '' TERM; echo stubborn; while :; do /bin/sleep 600; done"],
    start_new_session=True,
    env={},
)
signal.pause()
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path / "home")
    yield started
    started.stop(grace_seconds=0)


def logs(record: ProcessRecord, text: str) -> Callable[[], bool]:
    return lambda: text in record.log.read_text()


def has_members(record: ProcessRecord, count: int) -> Callable[[], bool]:
    return lambda: len(members(record)) >= count


def kill_leader(record: ProcessRecord) -> None:
    os.kill(record.pid, signal.SIGKILL)
    os.waitpid(record.pid, 0)


def test_a_process_leads_its_own_session_and_logs_both_streams(processes: Processes) -> None:
    record = processes.start(
        "web",
        ["sh", "-c", "echo $GREETING; echo problem >&2; exec sleep 600"],
        {"GREETING": "hello"},
    )
    wait_until_ready(record, logs(record, "problem"), 10)
    assert record.log.read_text() == "hello\nproblem\n"
    assert os.getsid(record.pid) == os.getpgid(record.pid) == record.pgid == record.pid
    assert os.getsid(record.pid) != os.getsid(0)
    assert alive(record)


def test_records_are_private_and_read_back(processes: Processes, tmp_path: Path) -> None:
    first = processes.start("first", SLEEPER)
    second = processes.start("second", SLEEPER)
    again = Processes(tmp_path / "home")
    assert again.records() == [first, second]
    path = tmp_path / "home" / "processes.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.log.stat().st_mode) == 0o600
    assert {"name", "pid", "pgid", "create_time", "argv", "log"} <= json.loads(path.read_bytes())[
        0
    ].keys()


def test_stop_ends_a_process_and_forgets_it(processes: Processes) -> None:
    first = processes.start("first", SLEEPER)
    second = processes.start("second", SLEEPER)
    assert processes.stop(grace_seconds=10, names=["first"]) == [first]
    assert not psutil.pid_exists(first.pid)
    assert processes.records() == [second]
    assert processes.stop(grace_seconds=10) == [second]
    assert processes.records() == []
    assert processes.stop(grace_seconds=10) == []


def test_sigterm_comes_first(processes: Processes) -> None:
    record = processes.start(
        "polite", ["sh", "-c", "trap 'echo goodbye; exit' TERM; echo ready; while :; do wait; done"]
    )
    wait_until_ready(record, logs(record, "ready"), 10)
    processes.stop(grace_seconds=30)
    assert "goodbye" in record.log.read_text()


def test_what_ignores_sigterm_is_killed_with_its_child(processes: Processes) -> None:
    record = processes.start("stubborn", STUBBORN)
    wait_until_ready(record, has_members(record, 2), 10)
    wait_until_ready(record, logs(record, "ready"), 10)
    family = members(record)
    assert processes.stop(grace_seconds=0.1) == [record]
    assert not any(lives(process) for process in family)


def test_the_child_of_a_killed_launcher_is_stopped(processes: Processes) -> None:
    record = processes.start("launcher", LAUNCHER)
    wait_until_ready(record, has_members(record, 2), 10)
    kill_leader(record)
    assert not alive(record)
    (orphan,) = members(record)
    assert processes.stop(grace_seconds=10) == [record]
    assert not lives(orphan)


@pytest.mark.parametrize("killed", [False, True])
def test_a_child_that_left_the_group_is_stopped(processes: Processes, killed: bool) -> None:
    record = processes.start("leaver", LEAVER)
    wait_until_ready(record, logs(record, "ready"), 10)
    wait_until_ready(record, has_members(record, 2), 10)
    child = next(process for process in members(record) if process.pid != record.pid)
    assert os.getpgid(child.pid) != record.pgid
    if killed:
        kill_leader(record)
    processes.stop(grace_seconds=10)
    assert not lives(child)


@pytest.mark.parametrize("killed", [False, True])
def test_a_child_with_another_environment_is_stopped(processes: Processes, killed: bool) -> None:
    record = processes.start("cleaner", ["sh", "-c", "sleep 600 & env -i sleep 600 & wait"])
    wait_until_ready(record, has_members(record, 3), 10)
    family = members(record)
    if killed:
        kill_leader(record)
    processes.stop(grace_seconds=10)
    assert not any(lives(process) for process in family)


def test_a_child_with_nothing_in_common_is_stopped_by_descent(processes: Processes) -> None:
    """Even when its parent goes first and it ignores SIGTERM."""
    record = processes.start("stranger", [sys.executable, "-c", STRANGER])
    wait_until_ready(record, logs(record, "stubborn"), 10)
    (child,) = psutil.Process(record.pid).children()
    processes.stop(grace_seconds=0.1)
    assert not lives(child)


def test_a_recycled_pid_is_not_touched(processes: Processes) -> None:
    stranger = processes.start("stranger", SLEEPER)
    old = stranger.model_copy(
        update={"create_time": stranger.create_time - 60, "mark": "of another process"}
    )
    assert not alive(old)
    assert members(old) == []
    assert stop([old], grace_seconds=0) == []
    assert alive(stranger)


@pytest.mark.parametrize("field", ["pid", "pgid"])
@pytest.mark.parametrize("number", [-1, 0, 1])
def test_a_record_cannot_name_the_system(processes: Processes, field: str, number: int) -> None:
    record = processes.start("web", SLEEPER)
    with pytest.raises(ValueError, match=field):
        ProcessRecord.model_validate({**record.model_dump(), field: number})


def test_a_name_runs_once(processes: Processes) -> None:
    record = processes.start("launcher", LAUNCHER)
    wait_until_ready(record, has_members(record, 2), 10)
    with pytest.raises(AlreadyRunning, match=rf"process {record.pid}.*xmcloud down"):
        processes.start("launcher", SLEEPER)
    kill_leader(record)
    with pytest.raises(AlreadyRunning):
        processes.start("launcher", SLEEPER)
    stop([record], grace_seconds=10)
    again = processes.start("launcher", SLEEPER)
    assert processes.records() == [again]


def test_starts_at_the_same_time_are_all_recorded(processes: Processes) -> None:
    names = [f"worker-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: processes.start(name, SLEEPER), names))
    assert {record.name for record in processes.records()} == set(names)


def test_a_missing_program_is_named(processes: Processes) -> None:
    with pytest.raises(NotStarted, match=r"web cannot be started: no-such-program: No such file"):
        processes.start("web", ["no-such-program"])
    assert processes.records() == []


def test_a_process_that_is_not_recorded_does_not_stay(processes: Processes, tmp_path: Path) -> None:
    processes.stop(grace_seconds=0)
    (tmp_path / "home" / "processes.json.new").mkdir()
    before = {process.pid for process in psutil.Process().children()}
    with pytest.raises(OSError, match=r"processes\.json\.new"):
        processes.start("web", SLEEPER)
    assert {process.pid for process in psutil.Process().children()} == before
    (tmp_path / "home" / "processes.json.new").rmdir()


def test_a_damaged_list_is_named(processes: Processes, tmp_path: Path) -> None:
    processes.stop(grace_seconds=0)
    path = tmp_path / "home" / "processes.json"
    path.write_text('[{"name": "web"}]')
    with pytest.raises(DamagedRecords, match=r"processes\.json"):
        processes.records()
    path.unlink()


def test_an_early_end_shows_the_log(processes: Processes) -> None:
    record = processes.start("web", ["sh", "-c", "seq 100; echo no port; exit 7"])
    with pytest.raises(ProcessDied, match=r"web ended with exit code 7") as caught:
        wait_until_ready(record, lambda: False, 600)
    message = str(caught.value)
    assert str(record.log) in message
    assert message.endswith("  100\n  no port")
    assert "\n  50\n" not in message
    assert caught.value.exit_code == 7


def test_a_silent_process_is_given_up(processes: Processes) -> None:
    record = processes.start("web", SLEEPER)
    with pytest.raises(NotReady, match=r"web did not answer within 0\.1 s\..* Its log .* is empty"):
        wait_until_ready(record, lambda: False, 0.1)
    assert alive(record)


def test_a_process_gone_before_is_not_waited_for(processes: Processes) -> None:
    record = processes.start("web", SLEEPER)
    kill_leader(record)
    with pytest.raises(ProcessDied, match="web ended before it was ready"):
        wait_until_ready(record, lambda: True, 600)


def test_what_takes_over_has_what_the_earlier_one_left(processes: Processes) -> None:
    earlier = processes.start("worker", LEAVER)
    wait_until_ready(earlier, logs(earlier, "ready"), 10)
    left = [each for each in members(earlier) if each.pid != earlier.pid]
    os.kill(earlier.pid, signal.SIGKILL)
    os.waitpid(earlier.pid, 0)
    with pytest.raises(AlreadyRunning):
        processes.start("worker", SLEEPER)
    later = processes.start("worker", SLEEPER, takes_over=True)
    assert all(map(lives, left))
    assert {each.pid for each in members(later)} == {later.pid, *(each.pid for each in left)}
    processes.stop(5, ["worker"])
    assert not any(map(lives, left))
