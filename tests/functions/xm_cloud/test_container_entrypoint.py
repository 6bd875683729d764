"""The entrypoint of images reports to the real API."""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions.xm_cloud import server
from tests.functions.xm_cloud.server import Worker
from xmcloud.core.attempt_tokens import AttemptTokens
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits, Stop
from xmcloud.core.specs import Command, JobSpec
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.packaging import container_entrypoint

TOKENS = AttemptTokens(b"known to this test")
SPEC = JobSpec(executable=Command(command=("true",)), pool="local")


@pytest.fixture(autouse=True)
def known_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the control plane starts."""
    monkeypatch.setattr(server, "ControlPlane", functools.partial(ControlPlane, tokens=TOKENS))


@pytest.fixture
def claimed(known_tokens: None, client: Client) -> Iterator[Job]:
    """A job whose attempt a worker has, which tells nothing more of it than its start."""
    jobs: list[Job] = []
    taken = threading.Event()

    def take(job: Job) -> None:
        jobs.append(job)
        taken.set()

    with Worker(client.url, take):
        experiment = client.create_experiment(NewExperiment(title="x"))
        unit = NewUnit(jobs=(NewJob(name="j", spec=SPEC),))
        client.add_units(experiment.id, NewUnits(units=(unit,)))
        assert taken.wait(20)
        yield jobs[0]


def run(client: Client, job: Job, script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-IS", container_entrypoint.__file__, "bash", "-c", script],
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder),
            "XMCLOUD_URL": client.url,
            "XMCLOUD_JOB_ID": job.id,
            "XMCLOUD_ATTEMPT": str(job.fence),
            "XMCLOUD_ATTEMPT_TOKEN": TOKENS.token(job.id, job.fence),
        },
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_whole_attempt(client: Client, claimed: Job, tmp_path: Path) -> None:
    script = 'seq 100000; echo \'{"accuracy": 0.5}\' >"$XMCLOUD_RESULTS"'
    ended = run(client, claimed, script, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    job = client.job(claimed.id)
    assert (job.state, job.results) == (JobState.COMPLETED, {"accuracy": 0.5})
    log = client.log(job.id)
    assert log.complete
    assert ended.stdout.startswith(log.data)


def test_an_end_that_people_ask_for(client: Client, claimed: Job, tmp_path: Path) -> None:
    client.stop_job(claimed.id, Stop(by="me", message="enough"))
    assert run(client, claimed, "sleep 60", tmp_path).returncode == 143
    assert client.job(claimed.id).state is JobState.STOPPED


def test_an_attempt_that_is_over(client: Client, claimed: Job, tmp_path: Path) -> None:
    assert run(client, claimed, "true", tmp_path).returncode == 0
    late = run(client, claimed, "sleep 60", tmp_path)
    assert late.returncode == 143
    assert b"takes no more reports: HTTP 409" in late.stderr
    assert client.job(claimed.id).state is JobState.COMPLETED
