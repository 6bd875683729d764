"""The memory that processes of a job may use."""

import asyncio
import os
import sys
from collections.abc import Mapping

import pytest

from xmcloud.core.models import ReasonCode
from xmcloud.worker.limits import (
    MemoryUse,
    MemoryWatch,
    Row,
    Table,
    excess,
    family,
    process_table,
    without_sharing,
)
from xmcloud.worker.reasons import exited

pytestmark = pytest.mark.anyio

MIB = 2**20


def table(*rows: tuple[int, int, int, int]) -> Table:
    return {row[0]: Row(*row) for row in rows}


def test_a_family_is_the_leader_s_session_and_all_that_came_from_it() -> None:
    processes = table(
        (1, 0, 1, 1),
        (10, 1, 10, 1),  # the leader
        (11, 10, 10, 1),
        (12, 11, 12, 1),  # with a session of its own
        (13, 12, 13, 1),
        (14, 1, 10, 1),  # whose parent ended
        (20, 1, 20, 1),  # of another job
    )
    assert family(processes, 10) == {10, 11, 12, 13, 14}
    assert family(processes, 99) == set()


def test_the_table_of_this_machine_has_this_process() -> None:
    own = process_table()[os.getpid()]
    assert (own.parent, own.session) == (os.getppid(), os.getsid(0))
    assert own.resident > MIB
    precise = without_sharing(os.getpid())
    assert precise is None or precise > 0


@pytest.mark.parametrize(
    ("used", "allowed", "said"),
    [
        (MIB, MIB, ""),
        (3 * 2**30, 2 * 2**30, "used 3.00 GiB, and it asked for 2.00 GiB"),
        (1.5 * MIB, MIB, "used 1.5 MiB, and it asked for 1.0 MiB"),
    ],
)
def test_more_than_is_allowed_is_told_with_a_remedy(used: float, allowed: float, said: str) -> None:
    told = excess(used, allowed)
    assert said in told
    assert bool(told) == bool(said)
    assert not told or ("out of memory" in told and "more `memory`" in told)


class Machine:
    """Two processes of a job that share memory, and one of another job."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.looks = self.precise_looks = 0
        self.time = 0.0

    def look(self) -> Table:
        self.looks += 1
        size = self.sizes.pop(0) * MIB
        return table((10, 1, 10, size), (11, 10, 10, size), (20, 1, 20, size))

    def precise(self, pid: int) -> int | None:
        self.precise_looks += 1
        return {10: 60 * MIB, 11: None}[pid]

    async def pause(self, seconds: float) -> None:
        self.time += seconds

    def use(self) -> MemoryUse:
        return MemoryUse(self.look, self.precise, lambda: self.time)


async def test_memory_is_watched_until_it_is_too_much() -> None:
    machine = Machine(10, 50, 70)
    watch = MemoryWatch(machine.use(), machine.pause)
    async with asyncio.timeout(20):
        told = await watch.exceeded(10, {"memory": 100 * MIB})
    assert "used 130.0 MiB" in told, "60 precisely, and 70 as nobody can tell precisely"
    assert (machine.looks, machine.precise_looks) == (3, 2)


async def test_shared_memory_counts_once() -> None:
    machine = Machine(70)
    assert await machine.use().of(10, 135 * MIB) == 130 * MIB


async def test_one_look_serves_all_jobs() -> None:
    machine = Machine(10)
    use = machine.use()
    ant, bee = await asyncio.gather(use.of(10, 100 * MIB), use.of(20, 100 * MIB))
    assert (ant, bee) == (20 * MIB, 10 * MIB)
    assert machine.looks == 1


@pytest.mark.parametrize("resources", [{}, {"cpu": 1.0}])
async def test_who_asked_for_no_memory_has_no_limit(resources: Mapping[str, float]) -> None:
    machine = Machine()
    watching = asyncio.ensure_future(MemoryWatch(machine.use()).exceeded(10, resources))
    await asyncio.sleep(0)
    assert not watching.done()
    watching.cancel()


async def test_a_real_process_that_grows_is_found() -> None:
    script = "x = bytearray(200 << 20); print(flush=True); input()"
    pipe = asyncio.subprocess.PIPE
    grown = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=pipe, stdout=pipe, start_new_session=True
    )
    assert grown.stdout is not None
    async with asyncio.timeout(20):
        await grown.stdout.readline()
        told = await MemoryWatch(MemoryUse()).exceeded(grown.pid, {"memory": 50.0 * MIB})
        grown.kill()
        await grown.communicate()
    assert "asked for 50.0 MiB" in told


@pytest.mark.parametrize(
    ("code", "note", "system", "reason"),
    [
        (-9, "", True, ReasonCode.OUT_OF_MEMORY),
        (137, "", True, ReasonCode.OUT_OF_MEMORY),
        (-9, "", False, ReasonCode.SIGNALED),
        (137, "", False, ReasonCode.EXITED),
        (-15, "", True, ReasonCode.SIGNALED),
        (1, "", True, ReasonCode.EXITED),
        (-9, "out of memory: its limit", False, ReasonCode.OUT_OF_MEMORY),
        (1, "out of memory: its limit", False, ReasonCode.OUT_OF_MEMORY),
        (-9, "somebody removed the container", True, ReasonCode.SIGNALED),
    ],
)
def test_an_end_for_want_of_memory_is_known(
    code: int, note: str, system: bool, reason: ReasonCode
) -> None:
    end = exited(code, "last line", {}, note, out_of_memory=system)
    assert end.reason.code is reason
    assert end.reason.exit_code == (137 if code == -9 else 143 if code == -15 else code)
    if reason is ReasonCode.OUT_OF_MEMORY:
        assert ": out of memory: " in end.reason.message
        assert end.reason.message.endswith("\nlast line")
