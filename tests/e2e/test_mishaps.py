"""What goes wrong around the processes: full disks, wrong tokens, everything at once."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.stack import Stack, Trace, lives, processes_of, until
from xmcloud.core.models import JobState, Outcome
from xmcloud.core.specs import Limits

LAUNCH = """
from xmcloud import xm, xm_local

def main(argv):
    with xm_local.create_experiment(experiment_title=argv[1]) as experiment:
        spec = xm.Binary(path="job.sh")
        [executable] = experiment.package([xm.Packageable(spec, xm_local.Local.Spec())])
        for _ in range(3):
            experiment.add(xm.Job(executable, xm_local.Local()))
"""


def test_two_launches_at_once_in_an_empty_home(embedded: Stack, trace: Trace) -> None:
    trace.open()
    (trace.folder / "launch.py").write_text(LAUNCH)
    job = trace.folder / "job.sh"
    job.write_text(f"#!/bin/sh\n{trace.script()}\n")
    job.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        launches = [
            pool.submit(embedded, "launch", "launch.py", "--", title, folder=trace.folder)
            for title in ("one", "other")
        ]
        for launch in launches:
            assert launch.result().stderr.endswith("3 completed\n")
    experiments = embedded.json("list")["experiments"]
    assert sorted(each["experiment"]["title"] for each in experiments) == ["one", "other"]
    assert all(each["states"] == {"completed": 3} for each in experiments)
    assert [len(attempts) for attempts in trace.of("start").values()] == [1] * 6
    serving = [p for p in processes_of(embedded.home) if "xmcloud.local.serve" in p.cmdline()]
    assert len(serving) == 1


@pytest.fixture
def tiny_blobs(embedded: Stack) -> Iterator[Path]:
    """The blobs of the control plane on a file system of 1 MiB."""
    blobs = embedded.home / "blobs"
    blobs.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(blobs)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a full disk: only root can mount a small file system")
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a full disk: this container cannot mount one ({mounted.stderr.strip()})")
    yield blobs
    subprocess.run(["umount", "--lazy", str(blobs)], check=True)


def test_a_full_disk_loses_no_line_of_a_log(
    embedded: Stack, trace: Trace, tiny_blobs: Path
) -> None:
    embedded.up()
    trace.open()
    large = embedded.submit(trace.folder, trace.script(between="seq 1 300000"))
    until(lambda: "No space is left" in embedded.log_of("worker"), "the worker tells")
    assert "reports are kept here and sent again: No space is left" in embedded.log_of("worker")
    trace.until("end", 1)
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_blobs)], check=True)
    (job,) = embedded.ended(large)
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.COMPLETED]
    assert embedded.whole_log(job) == "".join(f"{n}\n" for n in range(1, 300_001)).encode()
    assert trace.of("end") == {job.id: [1]}
    assert "reports are taken again" in embedded.log_of("worker")


def test_a_token_that_is_not_the_control_planes(embedded: Stack, trace: Trace) -> None:
    embedded.up()
    experiment = embedded.submit(trace.folder, trace.script())
    trace.until("start", 1)
    token = embedded.home / "token"
    kept = token.read_text()
    token.write_text("another token, of the right length and mode")
    for words in (["list"], ["run", "--", "true"]):
        refused = embedded(*words, status=5)
        assert "The token of this request is none of this control plane's." in refused.stderr
        assert "xmcloud down" in refused.stderr
    token.chmod(0o644)
    for words in (["list"], ["run", "--", "true"], ["up"]):
        refused = embedded(*words, status=5)
        assert f"{token} is readable or owned by somebody else." in refused.stderr
        assert f"chmod 600 {token}" in refused.stderr
    token.chmod(0o600)
    token.write_text(kept)
    trace.open()
    (job,) = embedded.ended(experiment)
    assert (job.state, len(job.attempts)) == (JobState.COMPLETED, 1)


def test_a_new_token_counts_from_the_next_start(embedded: Stack) -> None:
    embedded.up()
    (embedded.home / "token").write_text("another token, of the right length and mode")
    embedded("list", status=5)
    embedded("down")
    assert embedded("run", "--", "echo", "hello").stdout == "hello\n"


@pytest.mark.parametrize("words", [["up"], ["run", "--", "true"], ["launch", "launch.py"]])
def test_a_damaged_database_starts_nothing(embedded: Stack, trace: Trace, words: list[str]) -> None:
    (trace.folder / "launch.py").write_text(LAUNCH)
    embedded.home.mkdir()
    store = embedded.home / "store.db"
    store.write_bytes(b"this is no database" * 1000)
    refused = embedded(*words, status=4, folder=trace.folder)
    assert f"The database {store} cannot be read" in refused.stderr
    assert "Restore it from a backup, or move it away" in refused.stderr
    assert processes_of(embedded.home) == []
    assert store.read_bytes() == b"this is no database" * 1000


TREE = """
import json, os, signal, subprocess, sys, time
from datetime import UTC, datetime
from pathlib import Path

def told(number, frame):
    Path("told.new").write_text(datetime.now(UTC).isoformat())
    Path("told.new").rename("told")

signal.signal(signal.SIGTERM, told)
stubborn = ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"]
children = [subprocess.Popen(stubborn).pid, subprocess.Popen(stubborn, start_new_session=True).pid]
orphan = ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]
orphan = int(subprocess.run(orphan, stdout=subprocess.PIPE).stdout)
Path("pids.new").write_text(json.dumps([os.getpid(), *children, orphan]))
Path("pids.new").rename("pids")
while True:
    time.sleep(1000)
"""


def test_a_stop_reaches_the_process_at_once_and_ends_the_whole_tree(
    stack: Stack, tmp_path: Path
) -> None:
    """The heartbeat is 20 minutes: what the worker hears before is a message."""
    stack.up()
    (tmp_path / "tree.py").write_text(TREE)
    experiment = stack.submit(tmp_path, "exec python3 tree.py", limits=Limits(grace_seconds=1))
    until((tmp_path / "pids").exists, "the tree stands")
    pids = json.loads((tmp_path / "pids").read_text())
    (stopped,) = stack.json("stop", experiment)["jobs"]
    (job,) = stack.ended(experiment)
    assert job.state is JobState.STOPPED
    assert not any(lives(pid) for pid in pids)
    if not stack.emulators:
        asked = datetime.fromisoformat(stopped["stop"]["at"])
        told = datetime.fromisoformat((tmp_path / "told").read_text())
        assert told - asked < timedelta(seconds=2)
