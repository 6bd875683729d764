"""From a definition to a plan; without a control plane."""

import asyncio
import errno
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import EXPERIMENT_ID, JOB_ID, starting
from xmcloud.core.models import Job, Peer
from xmcloud.core.specs import Binary, Command, JobSpec, PythonSource
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import ApiClient
from xmcloud.worker.containers import Containers
from xmcloud.worker.disk import Disk, DiskFull, noticing_full_disk
from xmcloud.worker.environments import Environments
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.identity import with_peers
from xmcloud.worker.preparation import Plan, Preparation, base_environment
from xmcloud.worker.setup import Access, SetupFailed
from xmcloud.worker.slots import Allotment

pytestmark = pytest.mark.anyio
DIGEST = "0" * 64
PEERS = {"train": Peer(host="10.0.0.1", port=5001), "eval": Peer(host="10.0.0.2", port=5002)}
BASE = {"PATH": "/bin", "PYTHONPATH": "/else", "HOME": "/home"}


def job(executable: Any, **spec: Any) -> Job:
    return starting(JobSpec(executable=executable, **spec))


def attempt_folder(path: Path) -> AttemptFolder:
    folder = AttemptFolder(path, path / "checkpoint")
    folder.make()
    return folder


async def planned(preparation: Preparation, job: Job, folder: Path) -> Plan:
    plan = await preparation.plan(job, attempt_folder(folder), Allotment(), no_step)
    assert isinstance(plan, Plan)
    return plan


async def no_step(name: str, argv: Sequence[str], access: Access | None = None, /) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "attempt"
    path.mkdir()
    return path


@pytest.fixture
async def preparation(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Preparation]:
    """Blobs are those that are cached already: nothing listens at the address."""
    async with ApiClient.to("http://127.0.0.1:1", "token") as client:
        cache = tmp_path / "cache"
        revisions = Revisions(cache, Hosts({}, {}), BASE)
        blobs = BlobCache(cache, client)
        yield Preparation(blobs, Environments(cache), Containers(), revisions, BASE)


def cache_archive(tmp_path: Path, *members: tarfile.TarInfo) -> None:
    blobs = tmp_path / "cache" / "blobs"
    blobs.mkdir(parents=True)
    with tarfile.open(blobs / DIGEST, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


async def test_a_command_runs_as_it_stands(preparation: Preparation, folder: Path) -> None:
    command = Command(command=("echo", "a b"), directory="/tmp")
    arguments = [{"name": "lr", "value": 0.1}, {"value": "x"}]
    plan = await planned(preparation, job(command, arguments=arguments), folder)
    assert list(plan.argv) == ["echo", "a b", "--lr=0.1", "x"]
    assert plan.directory == Path("/tmp")


async def test_a_process_learns_which_job_it_is(preparation: Preparation, folder: Path) -> None:
    own = {"HOME": "/else", "XMCLOUD_JOB_ID": "mine", "PYTHONUNBUFFERED": "0"}
    plan = await planned(preparation, job(Command(command=("x",)), environment=own), folder)
    assert plan.environment == {
        **BASE,
        "HOME": "/else",
        "PYTHONUNBUFFERED": "0",
        "XMCLOUD_EXPERIMENT_ID": EXPERIMENT_ID,
        "XMCLOUD_JOB_ID": JOB_ID,
        "XMCLOUD_UNIT": "1",
        "XMCLOUD_JOB_NAME": "train",
        "XMCLOUD_ATTEMPT": "1",
        "XMCLOUD_RESULTS": str(folder / "shared" / "results.json"),
        "XMCLOUD_OUTPUTS": str(folder / "shared" / "outputs"),
        "XMCLOUD_CHECKPOINT": str(folder / "checkpoint"),
    }


def test_the_workers_secrets_stay_with_it() -> None:
    inherited = {"PATH": "/bin", "XMCLOUD_TOKEN": "secret", "XMCLOUD_PROCESS_MARK": "mark"}
    assert base_environment(inherited) == {"PATH": "/bin", "XMCLOUD_PROCESS_MARK": "mark"}


@pytest.mark.parametrize("directory", ["relative", "/no/such/folder"])
async def test_a_missing_directory_is_named(
    preparation: Preparation, folder: Path, directory: str
) -> None:
    command = Command(command=("x",), directory=directory)
    with pytest.raises(SetupFailed, match=directory):
        await preparation.plan(job(command), attempt_folder(folder), Allotment(), no_step)


async def test_source_is_unpacked_for_each_attempt(
    preparation: Preparation, folder: Path, tmp_path: Path
) -> None:
    cache_archive(tmp_path, member("src/train.py", size=3, mode=0o755))
    source = PythonSource(archive=DIGEST, directory="src", entrypoint=("python", "train.py"))
    plan = await planned(preparation, job(source), folder)
    assert plan.directory == folder / "work" / "src"
    assert (plan.directory / "train.py").read_bytes() == b"xxx"
    assert "PYTHONPATH" not in plan.environment
    prefix, rest = plan.environment["PATH"].split(os.pathsep)
    assert prefix == f"{plan.environment['VIRTUAL_ENV']}/bin"
    assert rest == "/bin"


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside", size=1),
        member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("pipe", type=tarfile.FIFOTYPE),
    ],
    ids=["path", "link", "device"],
)
async def test_an_archive_cannot_reach_outside(
    preparation: Preparation, folder: Path, tmp_path: Path, bad: tarfile.TarInfo
) -> None:
    cache_archive(tmp_path, bad)
    source = PythonSource(archive=DIGEST, entrypoint=("x",))
    with pytest.raises(SetupFailed, match="unpack"):
        await preparation.plan(job(source), attempt_folder(folder), Allotment(), no_step)
    assert not (folder / "outside").exists()


async def test_a_program_of_an_archive_runs_where_that_was_unpacked(
    preparation: Preparation, folder: Path, tmp_path: Path
) -> None:
    cache_archive(tmp_path, member("bin/tool", size=3, mode=0o755), member("lib", size=1))
    binary = Binary(file=DIGEST, name="bin/tool", archive=True)
    plan = await planned(preparation, job(binary, arguments=[{"value": 1}]), folder)
    assert (list(plan.argv), plan.directory) == (["bin/tool", "1"], folder / "work")
    assert plan.executable == folder / "work" / "bin" / "tool"
    assert (folder / "work" / "lib").exists()


@pytest.mark.parametrize("name", ["missing", "../output.log", "bin"])
async def test_a_program_that_is_not_in_the_archive_is_named(
    preparation: Preparation, folder: Path, tmp_path: Path, name: str
) -> None:
    (folder / "output.log").touch()
    cache_archive(tmp_path, member("bin/tool", size=3))
    binary = Binary(file=DIGEST, name=name, archive=True)
    with pytest.raises(SetupFailed, match=f"no file '{name}'"):
        await preparation.plan(job(binary), attempt_folder(folder), Allotment(), no_step)


@pytest.mark.parametrize("kind", ["command", "python", "binary"])
async def test_a_shell_is_there_for_arguments_that_ask_for_one(
    preparation: Preparation, folder: Path, tmp_path: Path, kind: str
) -> None:
    cache_archive(tmp_path, member("tool", size=3))
    executable, first = {
        "command": (Command(command=("a b",)), "'a b'"),
        "python": (PythonSource(archive=DIGEST, entrypoint=("python", "x.py")), "python x.py"),
        "binary": (Binary(file=DIGEST, name="tool"), f"{tmp_path}/cache/blobs/{DIGEST}"),
    }[kind]
    arguments = [{"value": "$HOME", "shell": True}, {"value": "$1"}]
    plan = await planned(preparation, job(executable, arguments=arguments), folder)
    assert list(plan.argv) == ["/bin/sh", "-c", f"exec {first} $HOME '$1'"]
    assert plan.executable is None


async def test_a_job_of_a_group_learns_where_the_others_are(
    preparation: Preparation, folder: Path
) -> None:
    command = Command(command=("x",))
    mine = job(
        command,
        arguments=[{"name": "server", "value": "%objectname(eval)%"}],
        environment={"TOLD": f"grpc://{EXPERIMENT_ID}_1_eval:80"},
    )
    plan = await planned(preparation, with_peers(mine, PEERS), folder)
    assert list(plan.argv) == ["x", "--server=10.0.0.2:5002"]
    assert plan.environment["TOLD"] == "grpc://10.0.0.2:80"
    assert plan.environment["XMCLOUD_PORT"] == "5001"
    addresses = {"train": "10.0.0.1:5001", "eval": "10.0.0.2:5002"}
    assert json.loads(plan.environment["XMCLOUD_PEERS"]) == addresses


async def test_a_name_that_no_job_of_the_group_has_fails_the_setup(
    preparation: Preparation, folder: Path
) -> None:
    mine = job(Command(command=("x",)), arguments=[{"value": "%objectname(serve)%"}])
    with pytest.raises(SetupFailed, match="serve"):
        await preparation.plan(
            with_peers(mine, PEERS), attempt_folder(folder), Allotment(), no_step
        )


@pytest.mark.parametrize("directory", ["missing", "..", "/"])
async def test_a_directory_that_is_not_in_the_archive_is_named(
    preparation: Preparation, folder: Path, tmp_path: Path, directory: str
) -> None:
    cache_archive(tmp_path, member("a", size=1))
    source = PythonSource(archive=DIGEST, directory=directory, entrypoint=("x",))
    with pytest.raises(SetupFailed, match=f"no folder '{directory}'"):
        await preparation.plan(job(source), attempt_folder(folder), Allotment(), no_step)


async def test_a_full_disk_is_told_from_other_errors(
    preparation: Preparation, small_disk: Path, tmp_path: Path
) -> None:
    cache_archive(tmp_path, member("big", size=1_000_000))
    source = PythonSource(archive=DIGEST, entrypoint=("x",))
    with pytest.raises(DiskFull, match="no space is left"), noticing_full_disk():
        await preparation.plan(job(source), attempt_folder(small_disk), Allotment(), no_step)
    with pytest.raises(PermissionError), noticing_full_disk():
        raise PermissionError(errno.EACCES, "no")


def test_a_device_without_room_is_a_full_disk() -> None:
    with pytest.raises(DiskFull), noticing_full_disk(), Path("/dev/full").open("wb", 0) as file:
        file.write(b"x")


def test_a_shortage_names_the_place(tmp_path: Path) -> None:
    assert Disk([tmp_path], 0).shortage() == ""
    assert str(tmp_path) in Disk([tmp_path], 2**60).shortage()


def test_a_disk_that_ran_full_is_left_alone_for_a_minute(tmp_path: Path) -> None:
    now = 100.0
    disk = Disk([tmp_path], 0, lambda: now)
    disk.ran_full()
    now += 59.9
    assert disk.shortage() != ""
    now += 0.2
    assert disk.shortage() == ""
