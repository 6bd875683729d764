"""What a worker does, from its first request to the last."""

import asyncio
import io
import logging
import os
import signal
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.functions.api import TOKEN
from tests.functions.worker_rig import LONG, Rig, eventually, opened_rig
from tests.support.wire import TransportWire
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.ports import Subscription
from xmcloud.core.specs import Binary, PythonSource
from xmcloud.worker.client import ApiClient, Refused
from xmcloud.worker.main import Replaced
from xmcloud.worker.remote_queue import RemoteQueue

pytestmark = pytest.mark.anyio


def jobs_of_this_process() -> list[psutil.Process]:
    """What its keeper started that runs a shell's loop; a session of tests has other children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.cmdline()[:2] == ["sh", "-c"]:
                found.append(process)
    return found


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def waits_for(path: Path, then: str = "") -> tuple[str, ...]:
    return ("sh", "-c", f"echo waiting; until test -e {path}; do sleep 0.01; done; {then}")


async def test_a_job_runs_and_all_about_it_is_told(rig: Rig) -> None:
    program = "echo out; echo err >&2; echo '{\"x\": 1.0}' > $XMCLOUD_RESULTS"
    job = await rig.launch("sh", "-c", program)
    async with rig.worker():
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED
    assert job.results == {"x": 1.0}
    assert [attempt.worker for attempt in job.attempts] == ["ant"]
    assert job.attempts[0].started_at is not None
    assert await rig.log(job) == b"out\nerr\n"
    assert list((rig.folder / "home/workers/ant/attempts").iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("sh", "-c", "echo why; exit 3"), ReasonCode.EXITED, "exited with code 3\nwhy"),
        (("sh", "-c", "kill -SEGV $$"), ReasonCode.SIGNALED, "killed by signal SIGSEGV"),
        (("no-such-program",), ReasonCode.SETUP_FAILED, "this machine has no such program"),
        (("/etc/passwd",), ReasonCode.SETUP_FAILED, "chmod +x"),
        (("echo", "x" * 140_000), ReasonCode.SETUP_FAILED, "longer than this system allows"),
    ],
    ids=["exit", "signal", "missing", "not executable", "too long"],
)
async def test_a_failure_says_why(
    rig: Rig, argv: tuple[str, ...], code: ReasonCode, message: str
) -> None:
    job = await rig.launch(*argv)
    async with rig.worker():
        job = await rig.over(job)
    assert job.state is JobState.FAILED
    assert job.reason.code is code
    assert message in job.reason.message


async def test_a_job_that_takes_too_long_is_ended(rig: Rig) -> None:
    job = await rig.launch("sleep", "1000", limits={"runtime_seconds": 0.05})
    async with rig.worker():
        job = await rig.over(job)
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.TIMED_OUT)


async def test_a_stop_reaches_the_process(rig: Rig) -> None:
    program = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    job = await rig.launch("sh", "-c", program)
    async with rig.worker():
        await rig.wrote(job, b"ready")
        await rig.api.post(Job, f"/jobs/{job.id}/stop", {"by": "ann", "message": "enough"})
        job = await rig.over(job)
    assert job.state is JobState.STOPPED
    assert job.reason.message == "stopped by ann: enough"
    assert job.attempts[0].outcome is Outcome.STOPPED
    assert b"saved" in await rig.log(job)


async def test_output_comes_while_the_job_runs(rig: Rig, tmp_path: Path) -> None:
    job = await rig.launch(*waits_for(tmp_path / "go", "echo end"))
    async with rig.worker():
        await rig.wrote(job, b"waiting\n")
        (tmp_path / "go").touch()
        await rig.over(job)
    assert await rig.log(job) == b"waiting\nend\n"


async def test_a_large_log_arrives_whole(rig: Rig) -> None:
    job = await rig.launch(*python("import sys; sys.stdout.write('x' * 3_000_000 + '\\rend')"))
    async with rig.worker():
        await rig.over(job)
    assert await rig.log(job) == b"x" * 3_000_000 + b"\rend"


async def test_source_and_binaries_run(rig: Rig) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        program = b"import sys; print(sys.argv, sys.prefix)\n"
        info = tarfile.TarInfo("src/train.py")
        info.size = len(program)
        archive.addfile(info, io.BytesIO(program))
    source = PythonSource(
        archive=await rig.blob(packed.getvalue()),
        directory="src",
        entrypoint=("python", "train.py"),
    )
    arguments = [{"name": "lr", "value": 0.1}]
    binary = Binary(file=await rig.blob(b"#!/bin/sh\necho $@\n"), name="tool")
    first = await rig.api.job(executable=source, arguments=arguments)
    second = await rig.api.job(executable=binary, arguments=[{"value": "a  b"}])
    async with rig.worker():
        await rig.over(first)
        await rig.over(second)
    assert b"['train.py', '--lr=0.1'] " in await rig.log(first)
    assert b"environments" in await rig.log(first)
    assert await rig.log(second) == b"a b\n"


async def test_a_packed_program_runs_among_its_files_and_a_shell_reads_its_arguments(
    rig: Rig,
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("bin/tool", b'#!/bin/sh\ncat data; echo "$@"\n'), ("data", b"in\n")):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    binary = Binary(file=await rig.blob(packed.getvalue()), name="bin/tool", archive=True)
    plain = await rig.api.job(executable=binary, arguments=[{"value": "$WORD"}])
    arguments = [{"value": "$WORD", "shell": True}, {"value": "a  b"}]
    read = await rig.api.job(
        executable=binary, arguments=arguments, environment={"WORD": "two words"}
    )
    async with rig.worker():
        await rig.over(plain)
        await rig.over(read)
    assert await rig.log(plain) == b"in\n$WORD\n"
    assert await rig.log(read) == b"in\ntwo words a  b\n"


async def test_a_setup_that_fails_shows_its_step_and_its_output(rig: Rig) -> None:
    packed = io.BytesIO()
    tarfile.open(fileobj=packed, mode="w:gz").close()
    source = PythonSource(
        archive=await rig.blob(packed.getvalue()),
        entrypoint=("python", "-V"),
        requirements="./no-such-project",
    )
    job = await rig.api.job(executable=source)
    async with rig.worker():
        job = await rig.over(job)
    assert job.reason.code is ReasonCode.SETUP_FAILED
    assert "Cannot install the requirements" in job.reason.message
    assert "no-such-project" in job.reason.message
    assert b"no-such-project" in await rig.log(job)


async def test_many_small_jobs_share_requests(rig: Rig) -> None:
    jobs = [await rig.launch("true") for _ in range(20)]
    async with rig.worker(slots=2):
        for job in jobs:
            await rig.over(job)
        counted = rig.network.requests.copy()
    # Each job at most starts with one and ends with another that fetches the next.
    assert counted["sync"] <= 2 * len(jobs) + 2
    assert counted["pull"] + counted["settle"] <= 4


async def test_an_idle_worker_waits_in_one_request(rig: Rig) -> None:
    async with rig.worker():
        await eventually(lambda: rig.network.requests["pull"] == 2)
        before = rig.network.requests.copy()
        job = await rig.launch("true")
        await rig.over(job)
    assert before == {"sessions": 1, "sync": 1, "pull": 2}


async def test_unreachable_is_not_dead(rig: Rig, tmp_path: Path) -> None:
    job = await rig.launch(*waits_for(tmp_path / "go", f"echo end; touch {tmp_path / 'done'}"))
    async with rig.worker():
        await rig.wrote(job, b"waiting")
        rig.network.down = True
        (tmp_path / "go").touch()
        await eventually((tmp_path / "done").exists)
        rig.network.down = False
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED
    assert len(job.attempts) == 1
    assert await rig.log(job) == b"waiting\nend\n"


async def test_a_claim_whose_answer_got_lost_is_not_forgotten(rig: Rig) -> None:
    rig.network.lose_answer_to = lambda body: b'"claim":{' in body
    job = await rig.launch("true")
    async with rig.worker():
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED
    assert len(job.attempts) == 1


async def test_a_report_whose_answer_got_lost_is_told_once(rig: Rig) -> None:
    rig.network.lose_answer_to = lambda body: b'"event":"finished"' in body
    job = await rig.launch("echo", "once")
    after = await rig.launch("true")
    async with rig.worker():
        job = await rig.over(job)
        await rig.over(after)
    assert job.state is JobState.COMPLETED
    assert await rig.log(job) == b"once\n"


async def test_a_worker_whose_lease_is_lost_kills_and_begins_anew(rig: Rig, tmp_path: Path) -> None:
    job = await rig.launch(*waits_for(tmp_path / "go", "echo $$; exec sleep 1000"))
    async with rig.worker():
        await rig.wrote(job, b"waiting")
        job = await rig.until(job, JobState.RUNNING)
        (process,) = jobs_of_this_process()
        await rig.api.call("POST", f"/sessions/{job.attempts[0].session}/close", {})
        await rig.api.call("POST", f"/jobs/{job.id}/stop", {})
        after = await rig.launch("true")
        (tmp_path / "go").touch()
        await rig.over(after)
        assert not process.is_running()
        job = await rig.over(job)
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.LOST]


async def test_a_full_control_plane_loses_nothing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "xmcloud.worker")
    rig.disk.full = True
    job = await rig.launch("echo", "kept")
    async with rig.worker():
        await eventually(lambda: "reports are kept here" in caplog.text)
        rig.disk.full = False
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED
    assert await rig.log(job) == b"kept\n"
    assert caplog.text.count("reports are kept here") == 1


async def test_a_stop_gets_through_while_reports_do_not(rig: Rig, tmp_path: Path) -> None:
    job = await rig.launch(
        "sh",
        "-c",
        f"trap 'touch {tmp_path}/stopped; exit' TERM; echo x; while :; do sleep 0.01; done",
    )
    async with rig.worker():
        await rig.wrote(job, b"x")
        rig.disk.full = True
        await rig.api.post(Job, f"/jobs/{job.id}/stop", {})
        await eventually((tmp_path / "stopped").exists)
        rig.disk.full = False
        job = await rig.over(job)
    assert job.state is JobState.STOPPED


async def test_a_worker_that_leaves_gives_its_jobs_back(rig: Rig, tmp_path: Path) -> None:
    program = "trap 'echo saved; exit' TERM; echo ready; while :; do sleep 0.01; done"
    job = await rig.launch("sh", "-c", program)
    async with rig.worker() as worker:
        await rig.wrote(job, b"ready")
        os.kill(os.getpid(), signal.SIGTERM)
        await worker
    job = await rig.api.get(Job, f"/jobs/{job.id}")
    assert job.state is JobState.QUEUED
    assert job.attempts[0].outcome is Outcome.RELEASED
    assert job.reason.code is ReasonCode.WORKER_STOPPED
    assert (await rig.api.call("GET", "/workers")).json() == {"sessions": []}


async def test_a_second_signal_kills(rig: Rig, tmp_path: Path) -> None:
    program = "trap 'echo stubborn' TERM; echo ready; while :; do sleep 0.01; done"
    job = await rig.launch("sh", "-c", program, limits={"grace_seconds": 600})
    async with rig.worker() as worker:
        await rig.wrote(job, b"ready")
        os.kill(os.getpid(), signal.SIGTERM)
        await rig.wrote(job, b"stubborn")
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LONG):
            await worker
    job = await rig.api.get(Job, f"/jobs/{job.id}")
    assert job.attempts[0].outcome is Outcome.RELEASED


async def test_without_room_on_disk_no_job_is_taken(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    job = await rig.launch("true")
    async with rig.worker(disk_floor_bytes=2**60):
        await eventually(lambda: "takes no job" in caplog.text)
    assert (await rig.api.get(Job, f"/jobs/{job.id}")).state is JobState.QUEUED


async def test_a_job_that_does_not_fit_now_runs_when_another_ended(
    rig: Rig, tmp_path: Path
) -> None:
    wide = {"resources": {"gpu": 2}}
    first = await rig.launch(*waits_for(tmp_path / "go"), resources={"gpu": 1})
    async with rig.worker(slots=2, resources={"gpu": 2}):
        await rig.until(first, JobState.RUNNING)
        second = await rig.launch("true", **wide)
        third = await rig.launch("true")
        await rig.over(third)
        (tmp_path / "go").touch()
        await rig.over(second)


async def test_a_dead_worker_of_the_same_name_is_replaced_at_once(rig: Rig) -> None:
    job = await rig.launch("true")
    session = await rig.api.session("ant")
    assert [each.id for each in await rig.api.claimed(session)] == [job.id]
    async with rig.worker():
        job = await rig.over(job)
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.LOST, Outcome.COMPLETED]


async def test_a_job_that_finds_no_room_goes_elsewhere(
    rig: Rig, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    binary = Binary(file=await rig.blob(os.urandom(1_000_000)), name="large")
    job = await rig.api.job(executable=binary)
    async with rig.worker(cache=small_disk):
        job = await rig.until(job, JobState.QUEUED, fence=1)
        await eventually(lambda: "takes no job: a job found no room" in caplog.text)
    assert job.reason.code is ReasonCode.DISK_FULL
    assert job.attempts[0].outcome is Outcome.RELEASED


async def test_a_worker_that_is_refused_ends_with_its_processes(rig: Rig) -> None:
    script = "echo ready; while :; do sleep 0.01; echo more; done"
    job = await rig.launch("sh", "-c", script)
    async with rig.worker() as worker:
        await rig.wrote(job, b"ready")
        (process,) = jobs_of_this_process()
        rig.network.refused_with = 401
        with pytest.raises(Refused, match="HTTP 401"):
            await asyncio.wait_for(worker, LONG)
    assert not process.is_running()


async def test_two_workers_of_one_name_do_not_fight(rig: Rig) -> None:
    job = await rig.launch("sh", "-c", "echo ready; while :; do sleep 0.01; echo more; done")
    async with rig.worker() as worker:
        await rig.wrote(job, b"ready")
        session = await rig.api.session("ant", host="elsewhere")
        with pytest.raises(Replaced, match="'ant' was started on elsewhere"):
            await asyncio.wait_for(worker, LONG)
    sessions = (await rig.api.call("GET", "/workers")).json()["sessions"]
    assert [each["id"] for each in sessions] == [session.id]


async def test_an_answer_of_something_else_is_no_answer(rig: Rig) -> None:
    rig.network.garble = 2
    job = await rig.launch("true")
    async with rig.worker():
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED


async def test_a_pull_from_a_subscription_that_is_gone_says_so(rig: Rig) -> None:
    async with ApiClient(TransportWire(rig.network, TOKEN), "http://api") as client:
        with pytest.raises(NotFound, match="queue-default/nobody"):
            await RemoteQueue(client).pull([Subscription("queue-default", "nobody")], 1, 0)
