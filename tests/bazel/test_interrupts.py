"""Ctrl-C while Bazel builds: the build ends with the script."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.bazel.workspace import STARTED
from xmcloud.xm_cloud.packaging.bazel import build
from xmcloud.xm_cloud.packaging.bazel_targets import BazelTarget

SLOW = "//pkg:slow"
SCRIPT = f"""
import sys
from xmcloud import xm
from xmcloud.xm_cloud.packaging.bazel import build
from xmcloud.xm_cloud.packaging.bazel_targets import BazelTarget
with xm.launch_script_folder(sys.argv[1]):
    list(build([BazelTarget("{SLOW}")], print))
"""


@pytest.fixture
def slow_process(workspace: Path) -> Iterator[Callable[[], psutil.Process]]:
    """Waits until the slow target is being built, and tells by which process."""
    pipe = os.open(workspace / STARTED, os.O_RDONLY | os.O_NONBLOCK)

    def wait() -> psutil.Process:
        assert select.select([pipe], [], [], 60)[0], "the build did not start"
        return psutil.Process(int(os.read(pipe, 100)))

    yield wait
    os.close(pipe)


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["script", "terminal"])
def test_ctrl_c_ends_the_build(
    workspace: Path,
    slow_process: Callable[[], psutil.Process],
    send: Callable[[int, int], None],
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, workspace / "pkg"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as script:
        slow = slow_process()
        send(script.pid, signal.SIGINT)
        _, error = script.communicate(timeout=60)
    assert error.splitlines()[-1] == "KeyboardInterrupt"
    assert psutil.wait_procs([slow], timeout=10)[1] == []


def test_a_thread_s_build_ends_by_the_ctrl_c_that_bazel_gets(
    workspace: Path, slow_process: Callable[[], psutil.Process]
) -> None:
    with ThreadPoolExecutor() as pool:
        building = pool.submit(next, build([BazelTarget(SLOW)], lambda _: None))
        slow = slow_process()
        # What another test left behind may be a zombie, which has no command line.
        children = [(child, child.as_dict(["cmdline"])) for child in psutil.Process().children()]
        (bazel,) = (child for child, about in children if SLOW in (about["cmdline"] or ()))
        bazel.send_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            building.result(timeout=60)
    assert psutil.wait_procs([slow], timeout=10)[1] == []


def test_a_line_that_cannot_be_told_ends_the_build(
    workspace: Path, slow_process: Callable[[], psutil.Process]
) -> None:
    def say(line: str) -> None:
        if line.startswith("INFO: Found"):
            slow.append(slow_process())
            raise BrokenPipeError

    slow: list[psutil.Process] = []
    with pytest.raises(BrokenPipeError):
        next(build([BazelTarget(SLOW)], say))
    assert psutil.wait_procs(slow, timeout=10)[1] == []
