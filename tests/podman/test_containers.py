"""Containers that outlive their worker, and files that are not the worker's."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.podman.engines import Engine, attempt_folder, claimed
from tests.support.servers import Server, running
from xmcloud.core.models import Job
from xmcloud.core.specs import ContainerOptions, Image
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container import Container
from xmcloud.worker.container_files import Janitor
from xmcloud.worker.containers import RECORD, Containers
from xmcloud.worker.running import Vanished
from xmcloud.worker.setup import SetupFailed

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

ROOT = Path(__file__).parents[2]
LONG = 40.0
SOMEBODY = 12345
WWW_DATA = 33

LINES = 300
COUNT = f"""
import os, time
for number in range({LINES}):
    os.write(1 + number % 2, b"%d \\xff\\r" % number)
    os.write(1 + number % 2, b"ends\\n" if number % 7 else b"x" * 20000 + b"\\n")
    time.sleep(0.004)
os.write(1, b"no newline")
raise SystemExit(3)
"""
EXPECTED = b"".join(
    b"%d \xff\r" % number + (b"ends\n" if number % 7 else b"x" * 20000 + b"\n")
    for number in range(LINES)
)

WAIT = "while [ ! -e /xmcloud/checkpoint/go ]; do sleep 0.02; done; "
AWKWARD = [
    b"a\r\nb\r\n\r\r\n\n\n\n \n",
    bytes(range(256)) * 70,
    b"x" * 40_000 + b"\nnext\n",
    "ü→🙂".encode() * 9_000 + b"\nnext\n",
    b"10%\r20%\r",
    b"",
]


@pytest.fixture
async def containers(engine: Engine) -> AsyncIterator[Containers]:
    containers = Containers(engine.host, "host")
    yield containers
    containers.close()
    for left in engine.containers():
        left.remove(force=True)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder of somebody else, who can reach it."""
    place = Path(tempfile.mkdtemp(prefix="xmw-"))
    shutil.chown(place, SOMEBODY, SOMEBODY)
    yield place
    shutil.rmtree(place)


@contextmanager
def worker(
    engine: Engine, place: Path, *command: str, uid: int = 0, user: str = "", image: str = ""
) -> Iterator[Server]:
    """One of its own process, which has started the command when this goes on."""
    argv = [sys.executable, "-m", "tests.podman.worker", engine.host, str(place)]
    argv += [str(uid), user, image or engine.image, *command]
    with running(
        argv, place.parent / f"{place.name}.log", {"PATH": "/usr/bin:/bin"}, ROOT
    ) as server:
        server.ready(lambda: "started" in server.output)
        yield server


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of_stream(stream: int, said: bytes) -> list[int]:
    """The numbers of its lines, in whose midst one of the other stream may stand."""
    return [n for n in map(int, re.findall(rb"(\d+) ", said)) if n % 2 == stream]


def first_attempt(place: Path) -> AttemptFolder:
    return AttemptFolder(place / "attempt-1", place / "checkpoint")


def killed(server: Server) -> None:
    server.process.kill()
    assert server.ended(LONG) is not None


async def adopted(containers: Containers, place: Path) -> Container:
    job, _ = claimed("true", image="any")
    container = await containers.adopt(job.id, 1, first_attempt(place))
    assert container is not None
    return container


async def started(
    containers: Containers, folder: AttemptFolder, job: Job, image: Image
) -> Container:
    return await containers.start(await containers.plan(job, image, folder))


async def test_another_worker_goes_on_where_a_killed_one_was(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    log = first_attempt(tmp_path).log
    with worker(engine, tmp_path, "python3", "-c", COUNT) as first:
        until(lambda: b"\n20 " in log.read_bytes())
        killed(first)
    before = log.stat().st_size
    container = await adopted(containers, tmp_path)
    code = await container.wait()
    await container.bury(1)
    assert code == 3
    assert before < log.stat().st_size
    said = log.read_bytes().removeprefix(b"setup\n").replace(b"no newline", b"", 1)
    assert Counter(said) == Counter(EXPECTED)
    for stream in (0, 1):
        assert of_stream(stream, said) == of_stream(stream, EXPECTED)
    assert engine.containers() == []


async def test_what_became_of_it_in_between_is_known(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    with worker(engine, tmp_path, "bash", "-c", f"{WAIT} echo went on; exit 7") as first:
        killed(first)
    (tmp_path / "checkpoint" / "go").touch()
    (only,) = engine.containers()
    assert only.wait()["StatusCode"] == 7
    container = await adopted(containers, tmp_path)
    assert await container.wait() == 7
    await container.bury(1)
    assert first_attempt(tmp_path).log.read_bytes() == b"setup\nwent on\n"


async def test_it_is_stopped_and_removed_like_one_of_its_own(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    script = "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    log = first_attempt(tmp_path).log
    with worker(engine, tmp_path, "bash", "-c", script) as first:
        until(lambda: b"ready" in log.read_bytes())
        killed(first)
    container = await adopted(containers, tmp_path)
    await container.end(LONG)
    assert await container.wait() == 3
    await container.bury(1)
    assert log.read_bytes() == b"setup\nready\nsaved\n"
    assert engine.containers() == []


async def test_one_that_was_not_started_is_none(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    job, _ = claimed("true", image="any")
    folder = attempt_folder(tmp_path)
    assert await containers.adopt(job.id, 1, folder) is None
    (folder.path / RECORD).write_text('{"image": "any", "offset": 6}')
    assert await containers.adopt(job.id, 1, folder) is None
    labels = {"xmcloud.job": job.id, "xmcloud.attempt": "1"}
    engine.client.containers.create(engine.image, ["true"], labels=labels, network_mode="host")
    assert await containers.adopt(job.id, 1, folder) is None
    assert engine.containers() == []


async def test_without_an_engine_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    folder = attempt_folder(tmp_path)
    (folder.path / RECORD).write_text('{"image": "any", "offset": 6}')
    with pytest.raises(Vanished, match="No container engine answers"):
        await Containers("tcp://127.0.0.1:1").adopt("j" * 16, 1, folder)


@pytest.mark.parametrize("ending", [b"the end", b"the end\n", b"y" * 20_000 + b"\n"])
async def test_no_byte_of_the_output_changes(
    engine: Engine, containers: Containers, tmp_path: Path, ending: bytes
) -> None:
    written = b"".join(AWKWARD) + ending
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "written").write_bytes(written)
    job, image = claimed("cat", "/xmcloud/checkpoint/written", image=engine.image)
    folder = attempt_folder(tmp_path)
    container = await started(containers, folder, job, image)
    assert await container.wait() == 0
    await container.bury(1)
    assert folder.log.read_bytes() == b"setup\n" + written


async def test_memory_that_ran_out_is_told_by_type(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    greedy = "print(len(bytearray(500 << 20)))"
    job, image = claimed(
        "python3", "-c", greedy, image=engine.image, resources={"memory": 64 << 20}
    )
    container = await started(containers, attempt_folder(tmp_path), job, image)
    assert await container.wait() == -9
    assert container.out_of_memory
    assert container.note.startswith("out of memory")
    assert "64 MiB" in container.note
    await container.bury(1)


async def test_a_checkpoint_is_there_for_the_next_attempt(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    script = (
        "cat $XMCLOUD_CHECKPOINT/step 2>&1; echo 5 >$XMCLOUD_CHECKPOINT/step; echo $XMCLOUD_OUTPUTS"
    )
    said = []
    for fence in (1, 2):
        job, image = claimed("bash", "-c", script, image=engine.image, fence=fence)
        folder = attempt_folder(tmp_path, fence)
        container = await started(containers, folder, job, image)
        await container.wait()
        await container.bury(1)
        said.append(folder.log.read_text().splitlines()[1:])
    assert "No such file" in said[0][0]
    assert said[1] == ["5", "/xmcloud/outputs"]


async def test_gpus_that_the_engine_cannot_give_are_not_left_out(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    job, image = claimed("true", image=engine.image)
    folder = attempt_folder(tmp_path)
    with pytest.raises(SetupFailed, match=r"GPU|gpu|device"):
        await containers.start(await containers.plan(job, image, folder, ["GPU-1"]))
    assert engine.containers() == []


async def test_a_volume_that_is_not_there_is_not_made(
    engine: Engine, containers: Containers, tmp_path: Path
) -> None:
    job, image = claimed("true", image=engine.image)
    missing = tmp_path / "no" / "such"
    image = image.evolve(options=ContainerOptions(volumes={str(missing): "/data"}))
    with pytest.raises(SetupFailed, match=f"The volume {missing} is not on this machine"):
        await started(containers, attempt_folder(tmp_path), job, image)
    assert not missing.parent.exists()


def reachable(engine: Engine) -> None:
    """Give everybody the right to speak to the engine."""
    socket = Path(engine.host.removeprefix("unix://"))
    socket.chmod(0o666)
    socket.parent.chmod(0o711)


@pytest.mark.parametrize(("uid", "home"), [(SOMEBODY, "/xmcloud"), (WWW_DATA, "/var/www")])
def test_a_container_runs_as_the_workers_user(
    engine: Engine, open_place: Path, uid: int, home: str
) -> None:
    reachable(engine)
    shutil.chown(open_place, uid, uid)
    place = open_place / "work"
    script = (
        "id -u; id -g; echo $HOME; touch /xmcloud/written; mkdir -m 700 $XMCLOUD_OUTPUTS/private;"
        "echo kept >$XMCLOUD_OUTPUTS/private/file; echo 1 >$XMCLOUD_CHECKPOINT/step"
    )
    with worker(engine, place, "bash", "-c", f"{script}; {WAIT}", uid=uid) as server:
        until((place / "checkpoint" / "step").exists)
        until(lambda: home in first_attempt(place).log.read_text())
        assert first_attempt(place).log.read_text() == f"setup\n{uid}\n{uid}\n{home}\n"
        (place / "checkpoint" / "go").touch()
        assert server.ended(LONG) == 0, server.output
        assert "{'file': 'kept\\n'}" in server.output
    assert list(place.iterdir()) == []


def test_files_of_root_can_be_read_and_are_removed(engine: Engine, open_place: Path) -> None:
    reachable(engine)
    script = (
        "umask 077; mkdir -p $XMCLOUD_OUTPUTS/private /xmcloud/.hidden;"
        "echo kept >$XMCLOUD_OUTPUTS/private/file; touch /xmcloud/.hidden/..file;"
        "mkdir $XMCLOUD_CHECKPOINT/.steps; echo 1 >$XMCLOUD_CHECKPOINT/.steps/1"
    )
    with worker(
        engine, open_place / "work", "bash", "-c", script, uid=SOMEBODY, user="image"
    ) as server:
        assert server.ended(LONG) == 0, server.output
        assert "{'file': 'kept\\n'}" in server.output
    assert list((open_place / "work").iterdir()) == []
    assert engine.containers() == []


async def test_what_cannot_be_removed_is_logged_by_name(
    engine: Engine, open_place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An image without a shell cannot help."""
    janitor = Janitor(engine.client, f"{engine.name}-is-not-there", "0:0")
    stays = open_place / "folder" / "stays"
    stays.mkdir(parents=True)
    with mounted(stays):
        janitor.delete(stays.parent)
    assert f"not all of {stays.parent} could be removed" in caplog.text
    assert f"{engine.name}-is-not-there" in caplog.text
    assert f": {stays}\n" in caplog.text


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """Nobody can remove it, not even root."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    yield
    subprocess.run(["umount", str(folder)], check=True)
