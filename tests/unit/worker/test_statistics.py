"""What is measured of the machine and of attempts, how it is kept, and when it is told."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.clock import START, ManualClock
from xmcloud.core.models import Statistics
from xmcloud.worker.statistics.meter import Meter, Rates, gpu_series
from xmcloud.worker.statistics.processes import Usage, _ask, all_usage, family
from xmcloud.worker.statistics.recording import POINTS, Recording
from xmcloud.worker.statistics.sampler import Sampler

MIB = 2**20


def recorded(*values: float, name: str = "cpu-percent", every: float = 5.0) -> Statistics:
    recording = Recording(5.0)
    for number, value in enumerate(values):
        recording.add(START + timedelta(seconds=every * number), {name: value})
    found = recording.statistics()
    assert found is not None
    return found


def test_nothing_is_known_before_the_first_measurement() -> None:
    assert Recording(5.0).statistics() is None


def test_a_record_keeps_what_was_measured() -> None:
    assert recorded(1, 2.04, 3) == Statistics(
        start=START, step_seconds=5.0, series={"cpu-percent": (1.0, 2.0, 3.0)}
    )


def test_a_full_record_keeps_means_over_intervals_twice_as_long() -> None:
    full = recorded(*range(POINTS))
    assert (full.step_seconds, full.series["cpu-percent"][-1]) == (5.0, POINTS - 1)
    longer = recorded(*range(POINTS + 1))
    assert longer.step_seconds == 10.0
    assert longer.series["cpu-percent"][:2] == (0.5, 2.5)
    assert longer.series["cpu-percent"][-1] == POINTS
    assert len(longer.series["cpu-percent"]) == POINTS // 2 + 1


def test_a_week_still_fits() -> None:
    week = recorded(*([50.0] * 120_960))
    assert week.step_seconds == 5.0 * 512
    assert set(week.series["cpu-percent"]) == {50.0}
    assert len(week.series["cpu-percent"]) <= POINTS


def test_of_memory_the_most_is_kept() -> None:
    values = [1.0] * POINTS + [9.0, 1.0]
    assert recorded(*values, name="memory-bytes").series["memory-bytes"][-1] == 9.0
    assert recorded(*values, name="gpu-0-memory-bytes").series["gpu-0-memory-bytes"][-1] == 9.0
    assert recorded(*values).series["cpu-percent"][-1] == 5.0


def test_measurements_that_are_a_little_late_leave_no_gap() -> None:
    recording = Recording(5.0)
    for seconds in (0.3, 5.0, 10.2, 15.0, 19.9):
        recording.add(START + timedelta(seconds=seconds), {"x": seconds})
    found = recording.statistics()
    assert found is not None
    assert found.series == {"x": (0.3, 5.0, 10.2, 15.0, 19.9)}


def test_where_nothing_was_measured_is_a_gap() -> None:
    assert recorded(1, 2, every=15.0).series["cpu-percent"] == (1.0, None, None, 2.0)
    recording = Recording(5.0)
    recording.add(START, {"a": 1.0})
    recording.add(START + timedelta(seconds=5), {"b": 2.0})
    found = recording.statistics()
    assert found is not None
    assert found.series == {"a": (1.0, None), "b": (None, 2.0)}


def test_a_clock_that_was_set_back_loses_nothing() -> None:
    recording = Recording(5.0)
    for seconds, value in ((0, 1.0), (5, 2.0), (-3600, 4.0), (10, 5.0)):
        recording.add(START + timedelta(seconds=seconds), {"x": value})
    found = recording.statistics()
    assert found is not None
    assert found.series == {"x": (1.0, 3.0, 5.0)}


def test_rates_are_changes_per_second() -> None:
    rates = Rates()
    assert rates.since_last(100.0, {"read": 10, "sent": 7}) == {}
    assert rates.since_last(104.0, {"read": 30, "sent": 3, "new": 1}) == {"read": 5.0, "sent": 0.0}
    assert rates.since_last(104.0, {"read": 99}) == {}


def test_a_family_is_all_that_hangs_below() -> None:
    processes = {pid: Usage(parent, 0.0, 0) for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1))}
    assert set(family([2], processes)) == {2, 3, 4}
    assert set(family([5, 2, 3], processes)) == {2, 3, 4, 5}
    assert set(family([99], processes)) == set()


@pytest.fixture
def busy() -> Iterator[int]:
    """A process with a child that holds 64 MiB and has used 0.2 s of a processor."""
    program = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    held = bytearray(os.urandom(1)) * (64 * 2**20)\n"
        "    while time.process_time() < 0.2: pass\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
        "else:\n"
        "    os.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()
        process.wait(20)


@pytest.mark.parametrize("read", [all_usage, lambda: dict(_ask())], ids=["fast", "psutil"])
def test_what_real_processes_use(busy: int, read: object) -> None:
    assert callable(read)
    kin = family([busy], read())
    assert len(kin) == 2
    assert sum(each.cpu_seconds for each in kin.values()) >= 0.15
    assert 64 * MIB <= sum(each.memory_bytes for each in kin.values()) < 300 * MIB
    assert kin[busy].parent == os.getpid()


def test_a_real_machine(tmp_path: Path) -> None:
    meter = Meter(tmp_path)
    assert meter.measure(0.0).keys() == {"memory-bytes", "disk-used-percent"}
    measured = meter.measure(5.0)
    assert MIB < measured["memory-bytes"] < 2**50
    assert 0 <= measured["disk-used-percent"] <= 100
    assert 0 <= measured.get("cpu-percent", 0.0) <= 100
    assert all(value >= 0 for value in measured.values())


def test_the_gpus_of_an_attempt_keep_the_numbers_of_the_machine() -> None:
    gpus = [(10, 1000), (90, 2000)]
    assert gpu_series(gpus, [1, 5]) == {"gpu-1-percent": 90.0, "gpu-1-memory-bytes": 2000.0}


class TwoGpus:
    """A stand-in for a driver: no machine of the tests has GPUs."""

    def sample(self) -> list[tuple[float, float]]:
        return [(10.0, 1000.0), (90.0, 2000.0)]


@asynccontextmanager
async def sampling(clock: ManualClock, folder: Path) -> AsyncIterator[Sampler]:
    """One that has measured once."""
    sampler = Sampler(clock, folder, TwoGpus())
    running = asyncio.create_task(sampler.run())
    await clock.sleeper()
    try:
        yield sampler
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def pass_seconds(clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds // 5):
        clock.advance(5)
        await clock.sleeper()


pytestmark = pytest.mark.anyio


async def test_the_machine_is_measured_all_the_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with sampling(clock, tmp_path) as sampler:
        await pass_seconds(clock, 20)
        found = sampler.machine()
    assert found is not None
    assert (found.start, found.step_seconds) == (START, 5.0)
    assert found.series["gpu-1-percent"] == (90.0,) * 5
    assert len(found.series["memory-bytes"]) == 5


async def test_the_machine_is_told_of_once_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    async with sampling(clock, tmp_path) as sampler:
        assert sampler.machine_due() == sampler.machine()
        told = []
        for _ in range(25):
            await pass_seconds(clock, 5)
            told.append(sampler.machine_due() is not None)
    assert [number for number, was in enumerate(told, start=1) if was] == [12, 24]


async def test_an_attempt_is_told_of_once_a_minute_and_at_its_end(
    tmp_path: Path, busy: int
) -> None:
    clock, told = ManualClock(), list[Statistics]()
    async with sampling(clock, tmp_path) as sampler:
        sampler.watch(("job", 1), lambda: [busy], told.append, gpus=[1])
        await pass_seconds(clock, 55)
        assert told == []
        await pass_seconds(clock, 65)
        assert [len(each.series["memory-bytes"]) for each in told] == [12, 24]
        await pass_seconds(clock, 10)
        sampler.forget(("job", 1))
        sampler.forget(("job", 1))
    (at_its_end,) = told[2:]
    assert len(at_its_end.series["memory-bytes"]) == 26
    series = {"memory-bytes", "cpu-core-percent", "gpu-1-percent", "gpu-1-memory-bytes"}
    assert at_its_end.series.keys() == series
    assert at_its_end.series["cpu-core-percent"][:2] == (None, 0.0)
    assert at_its_end.start == START + timedelta(seconds=5)


async def test_a_short_attempt_is_not_told_of(tmp_path: Path, busy: int) -> None:
    clock, told = ManualClock(), list[Statistics]()
    async with sampling(clock, tmp_path) as sampler:
        sampler.watch(("job", 1), lambda: [busy], told.append)
        await pass_seconds(clock, 5)
        sampler.forget(("job", 1))
        sampler.watch(("job", 2), list, told.append)
        await pass_seconds(clock, 65)
        sampler.forget(("job", 2))
    assert told == []


async def test_a_sampler_that_slept_goes_on_with_the_clock(tmp_path: Path) -> None:
    clock = ManualClock()
    async with sampling(clock, tmp_path) as sampler:
        clock.advance(23)
        await clock.sleeper()
        clock.advance(2)
        await clock.sleeper()
        found = sampler.machine()
    assert found is not None
    memory = found.series["memory-bytes"]
    assert [value is not None for value in memory] == [True, False, False, False, False, True]
