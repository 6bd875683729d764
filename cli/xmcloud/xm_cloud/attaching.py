"""Attaches the terminal to a container that runs on this machine."""

import shutil
import subprocess
import sys
import threading

from xmcloud.core.models import Job, JobState
from xmcloud.xm_cloud.watcher import Watcher


def attach(watcher: Watcher, job: Job) -> bool:
    """Once it runs, until it ends or people detach (Ctrl-P Ctrl-Q).

    False, and nothing happens, where there is no terminal to attach.
    """
    if not sys.stdin.isatty():
        return False
    docker = shutil.which("docker")
    if docker is None:
        sys.stderr.write(
            "xmcloud: the terminal is not attached, since there is no docker command here.\n"
        )
        return False
    if not _began(watcher, job) or not _is_up(docker, job.full_name):
        return False
    subprocess.run([docker, "attach", job.full_name], check=False)
    return True


def _is_up(docker: str, container: str) -> bool:
    asked = [docker, "container", "inspect", "--format", "{{.State.Running}}", container]
    return subprocess.run(asked, capture_output=True, check=False).stdout.strip() == b"true"


def _began(watcher: Watcher, job: Job) -> bool:
    """Waits until it runs, or has ended before."""
    began = threading.Event()
    runs: list[bool] = []

    def hear(change: Job) -> None:
        if change.id == job.id and (change.state is JobState.RUNNING or change.state.terminal):
            runs.append(change.state is JobState.RUNNING)
            began.set()

    unlisten = watcher.listen(hear)
    try:
        watcher.ended(job.id).add_done_callback(lambda _: began.set())
        began.wait()
    finally:
        unlisten()
    return runs[:1] == [True]
