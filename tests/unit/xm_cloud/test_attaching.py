"""Attaching a terminal, with a `docker` that writes down what it is asked."""

import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.xm_cloud.jobs import job
from xmcloud.core.models import JobState
from xmcloud.core.protocol import Changes
from xmcloud.xm_cloud.attaching import attach
from xmcloud.xm_cloud.watcher import Watcher

DOCKER = """#!/bin/sh
echo "$@" >> {asked}
[ "$1" = attach ] || echo {running}
"""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield
    os.close(ours)


def docker(folder: Path, monkeypatch: pytest.MonkeyPatch, running: str = "true") -> Path:
    asked, program = folder / "asked", folder / "docker"
    program.write_text(DOCKER.format(asked=asked, running=running))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return asked


def watching(*states: JobState) -> Watcher:
    """Hears of a job that goes through the states and then stays as it is."""
    left = list(states)
    stays = threading.Event()

    def poll(cursor: str | None, wait: float) -> Changes:
        if not left:
            stays.wait(0.05)
            return Changes(jobs=[], cursor="")
        return Changes(jobs=[job(1, left.pop(0))], cursor="")

    return Watcher(poll, sleep=lambda seconds: None)


@pytest.mark.usefixtures("terminal")
def test_the_terminal_is_attached_once_the_container_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = docker(tmp_path, monkeypatch)
    states = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.COMPLETED)
    assert attach(watching(*states), job(1))
    name = job(1).full_name
    assert asked.read_text().splitlines() == [
        f"container inspect --format {{{{.State.Running}}}} {name}",
        f"attach {name}",
    ]


@pytest.mark.usefixtures("terminal")
def test_a_container_that_ended_before_is_not_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = docker(tmp_path, monkeypatch, running="false")
    assert not attach(watching(JobState.RUNNING, JobState.COMPLETED), job(1))
    assert "attach" not in asked.read_text()
    asked.unlink()
    assert not attach(watching(JobState.STOPPED), job(1))
    assert not asked.exists()


@pytest.mark.usefixtures("terminal")
def test_without_docker_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not attach(watching(JobState.RUNNING), job(1))
    assert "no docker command" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert not attach(watching(JobState.RUNNING), job(1))
