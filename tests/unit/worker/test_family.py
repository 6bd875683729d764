"""Finding processes, with real ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from xmcloud.core.names import random_id
from xmcloud.worker import family
from xmcloud.worker.identity import mark

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, which Linux has"),
]


class Running:
    """Processes that end with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, script: str = "echo; exec sleep 1000", **variables: str) -> int:
        """Once it has printed a line."""
        process = subprocess.Popen(
            ["sh", "-c", script],
            env={"PATH": os.environ["PATH"], **variables},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(os.killpg, process.pid, signal.SIGKILL)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
        return process.pid


@pytest.fixture
def running() -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(stack)


def pids(processes: list[psutil.Process]) -> set[int]:
    return {process.pid for process in processes}


def test_children_are_told_whenever_they_were_started(running: Running) -> None:
    before = running.start()
    children = family.Children(os.getpid())
    after = running.start()
    assert {before, after} <= children.now()
    children.refresh()
    assert {before, after} <= children.now()


def test_children_of_others_are_no_children(running: Running) -> None:
    other = running.start("sleep 1000 & echo; wait")
    children = family.Children(os.getpid())
    (grandchild,) = psutil.Process(other).children()
    for _ in range(2):
        assert grandchild.pid not in children.now()
    assert children.now() >= {other}
    assert grandchild.pid in family.Children(other).now()


def test_a_process_is_told_from_a_later_one_of_its_number(running: Running) -> None:
    pid = running.start()
    created = psutil.Process(pid).create_time()
    assert pids(family.descendants_since(pid, created + 1)) == {pid}
    assert family.descendants_since(pid, created - 60) == []


def test_only_carriers_of_the_whole_mark_are_found(running: Running) -> None:
    job = random_id()
    one, _other = (running.start(**mark(job, fence)) for fence in (1, 2))
    assert pids(family.carriers([mark(job, 1)])) == {one}
    assert family.carriers([{}]) == []


async def test_what_comes_to_light_later_is_killed_too(running: Running) -> None:
    found = [running.start(), running.start()]

    def one_after_the_other() -> list[psutil.Process]:
        alive = [pid for pid in found if family.living(family.found(pid))]
        return [psutil.Process(pid) for pid in alive[:1]]

    assert await family.kill(one_after_the_other, 10) == []
    assert [pid for pid in found if family.living(family.found(pid))] == []


async def test_what_cannot_be_killed_is_told() -> None:
    own = psutil.Process()
    assert await family.kill(lambda: [Immortal(own.pid)], 0) == [own]


class Immortal(psutil.Process):
    """One that no signal reaches."""

    def send_signal(self, sig: int) -> None:
        raise psutil.AccessDenied(self.pid)
