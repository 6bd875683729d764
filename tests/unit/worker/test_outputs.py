"""What a job left behind is in its results, however it ended and whoever wrote it."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xmcloud.core.errors import TooLarge
from xmcloud.core.worker_protocol import RESULTS_LIMIT
from xmcloud.worker.aside import aside
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.outputs import HERE, collect, in_container

pytestmark = pytest.mark.anyio

KILLED = """
import os, signal, sys
import xmcloud
run = xmcloud.init()
for step in range(100): run.log(step, loss=1 / (step + 1))
run.summary["best"] = float(sys.argv[1])
run.text("note", sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""


class Job:
    """Its folder, what was stored of it, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = AttemptFolder(folder / "attempt", folder / "checkpoint")
        self.folder.make()
        self.outputs = self.folder.outputs
        self.stored: dict[str, bytes] = {}
        self.said: list[str] = []

    async def store(self, path: Path) -> str:
        content = await aside(path.read_bytes)
        if content == b"refused":
            raise TooLarge("The blob", 7, 6)
        digest = hashlib.sha256(content).hexdigest()
        self.stored[digest] = content
        return digest

    def runs(self, program: str, *words: str) -> int:
        environment = {n: v for n, v in os.environ.items() if not n.startswith("XMCLOUD_")}
        environment |= {"XMCLOUD_JOB_ID": "a" * 16, "XMCLOUD_OUTPUTS": str(self.outputs)}
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(command, env=environment, check=False).returncode

    async def collected(self, **results: object) -> dict[str, object]:
        found = await collect(self.outputs, results, self.store, self.said.append)  # type: ignore[arg-type]
        return {**found}

    async def blobs(self) -> dict[str, bytes]:
        found = (await self.collected()).get("blobs", {})
        assert isinstance(found, dict)
        return {name: self.stored[digest] for name, digest in found.items()}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


async def test_a_killed_process_loses_nothing(job: Job) -> None:
    assert job.runs(KILLED, "0.5") == -signal.SIGKILL
    results = await job.collected(own=1)
    blobs = results.pop("blobs")
    assert results == {
        "own": 1,
        "summary": {"best": 0.5},
        "series": {"loss": {"last": 0.01, "min": 0.01, "max": 1.0, "count": 100}},
    }
    assert isinstance(blobs, dict)
    assert sorted(blobs) == ["names", "note", "points"]
    assert job.stored[blobs["note"]] == b"0.5"
    assert len(job.stored[blobs["points"]]) == 3200
    assert job.said == []


async def test_processes_one_after_the_other_share_the_results(job: Job) -> None:
    for best in ("1", "2"):
        job.runs(KILLED, best)
    results = await job.collected()
    assert results["summary"] == {"best": 2.0}
    series = results["series"]
    assert isinstance(series, dict)
    assert series["loss"]["count"] == 200


async def test_files_that_any_program_puts_there_are_stored(job: Job) -> None:
    (job.outputs / "a" / "b").mkdir(parents=True)
    for name, content in {"a/b/model": "x", "top": "y", "too-large": "refused"}.items():
        (job.outputs / name).write_text(content)
    assert await job.blobs() == {"a/b/model": b"x", "top": b"y"}
    assert [line.partition(":")[0] for line in job.said] == ["too-large is not stored"]


async def test_folders_may_be_deep(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    (job.outputs / "file").write_text("x")
    with monkeypatch.context() as inside:
        inside.chdir(job.outputs)
        for _ in range(1000):  # a longer path than the system takes
            os.mkdir("folder")
            os.chdir("folder")
    assert await job.blobs() == {"file": b"x"}
    assert [line.rpartition(": ")[2] for line in job.said] == ["File name too long"]
    await aside(lambda: subprocess.run(["rm", "-r", str(job.outputs / "folder")], check=True))


async def test_nothing_of_the_machine_is_taken(job: Job, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "events.out.tfevents.1").write_text("secret")
    (job.outputs / "link").symlink_to(secret / "events.out.tfevents.1")
    (job.outputs / "folder").symlink_to(secret)
    os.mkfifo(job.outputs / "pipe")
    own = job.outputs / ".xmcloud" / "1"
    own.mkdir(parents=True)
    (own / "kept-1").symlink_to(secret / "events.out.tfevents.1")
    (own / "points").symlink_to(secret / "events.out.tfevents.1")
    lines = [
        ["kept", "one", {"file": "kept-1"}],
        ["kept", "two", {"file": "../../../../secret/events.out.tfevents.1"}],
        ["kept", "three", {"file": str(secret / "events.out.tfevents.1")}],
        ["tensorboard", "four", {"folder": str(secret), "since": 0.0}],
        ["tensorboard", "five", {"folder": "/xmcloud/outputs/folder", "since": 0.0}],
        ["tensorboard", "six", {"folder": "/xmcloud/../secret", "since": 0.0}],
    ]
    (own / "index").write_text("".join(json.dumps(line) + "\n" for line in lines))
    places = in_container(job.folder.shared)
    assert await collect(job.outputs, {}, job.store, job.said.append, places) == {}
    assert job.stored == {}
    assert len(job.said) == 4


async def test_a_folder_of_nonsense_does_no_harm(job: Job) -> None:
    own = job.outputs / ".xmcloud" / "1"
    own.mkdir(parents=True)
    lines = [
        "nonsense",
        "[1]",
        '["kept", "a", 3]',
        '["input", "b", {"is": NaN}]',
        '["kept", "c", {"file": "\\u0000"}]',
        '["tensorboard", "d", {"folder": "/\\u0000", "since": 1.0}]',
        '["tensorboard", "e", {"folder": null, "since": "x"}]',
        '["tensorboard", "f", {"folder": "/nowhere", "since": "x"}]',
        "[" * 100_000,
        '["kept"',
    ]
    (own / "index").write_text("\n".join(lines))
    (own / "summary.json").write_text('{"deep": ' + "[" * 150 + "]" * 150 + "}")
    (own / "points").write_bytes(bytes(range(64)))
    (own / "names").write_text("no JSON\n")
    other = job.outputs / ".xmcloud" / "2"
    (other / "points").mkdir(parents=True)
    os.mkfifo(other / "index")
    (job.outputs / "events.out.tfevents.1").write_bytes(b"\x05" + bytes(11) + b"\xff" * 9)
    name = os.fsdecode(b"caf\xe9")
    (job.outputs / name).write_text("x")
    results = await job.collected(own=1)
    assert set(results) == {"own", "blobs"}
    assert results["blobs"].keys() == {"caf?", "tensorboard/events.out.tfevents.1"}  # type: ignore[attr-defined]
    said = [line.partition(":")[0] for line in job.said]
    assert said == [
        "c is not stored",
        "the event files of d are not within reach",
        "the event files of e are not within reach",
        "points of 1 are not recorded",
        "the glance at the outputs is not recorded",
    ]


async def test_all_of_it_is_stored_when_results_hold_less(job: Job) -> None:
    for number in range(300):
        (job.outputs / f"{number:03d}").write_text(str(number))
    results = await job.collected()
    assert len(json.dumps(results)) <= RESULTS_LIMIT
    assert results["cut"] is True
    whole = json.loads(job.stored[str(results["whole"])])
    assert len(whole["blobs"]) == 300


async def test_a_job_that_left_nothing_keeps_its_results(job: Job) -> None:
    assert await job.collected(own=1) == {"own": 1}
    assert job.said == []
    job.outputs.rmdir()
    assert await job.collected(own=1) == {"own": 1}
    assert ["what the job left behind is not recorded" in line for line in job.said] == [True]
    assert {"/": Path("/")} == HERE
