"""What jobs share stays below a limit, and stays while it is used."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from xmcloud.worker.cache import BlobCache, locked
from xmcloud.worker.client import ApiClient
from xmcloud.worker.disk import DiskFull
from xmcloud.worker.environments import Environments, Listed
from xmcloud.worker.eviction import Lease, Room, disk_usage
from xmcloud.worker.settings import load_settings

pytestmark = pytest.mark.anyio
_OTHER_WORKER = """
import sys
from pathlib import Path
from xmcloud.worker.eviction import Lease
lease = Lease(Path(sys.argv[1]))
print(flush=True)
sys.stdin.read()
"""
NOW = 4_000_000_000.0


class Cache:
    """Things of 100 bytes by name, used so many minutes ago."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, name: str, minutes: float) -> Path:
        path = self.folder / "environments" / (name * 32)
        path.mkdir(parents=True)
        (path / "environment.json").write_text(json.dumps({"bytes": 100, "python": "3"}))
        used(path.with_suffix(".used"), minutes)
        return path

    def repository(self, name: str, minutes: float) -> Path:
        path = self.folder / "git" / f"{name}.git"
        (path / "objects" / "pack").mkdir(parents=True)
        (path / "objects" / "pack" / "pack").write_bytes(b"x" * 100)
        used(path.with_suffix(".lock"), minutes)
        return path

    def blob(self, name: str, minutes: float) -> Path:
        path = self.folder / "blobs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100)
        return used(path, minutes)

    async def trim(self, limit: int, to_free: int = 0) -> int:
        return await Room(self.folder, limit, lambda: NOW).trim(to_free)


def used(path: Path, minutes: float) -> Path:
    path.touch()
    os.utime(path, (NOW - 60 * minutes,) * 2)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


async def test_the_least_recently_used_goes_first(cache: Cache) -> None:
    things = [cache.environment("a", 40), cache.environment("b", 60), cache.environment("c", 50)]
    assert await cache.trim(300) == 0
    assert await cache.trim(200) == 100
    assert [path.exists() for path in things] == [True, False, True]
    assert await cache.trim(150) == 100
    assert [path.exists() for path in things] == [True, False, False]


async def test_everything_that_jobs_share_counts(cache: Cache) -> None:
    blob = cache.blob("d" * 64, 30)
    environment, repository = cache.environment("a", 20), cache.repository("x", 40)
    block = disk_usage(repository)
    assert await cache.trim(200 + block - 1) == block
    assert [path.exists() for path in (repository, blob, environment)] == [False, True, True]
    assert await cache.trim(150) == 100
    assert [path.exists() for path in (blob, environment)] == [False, True]


async def test_a_disk_that_is_short_of_room_gets_it(cache: Cache) -> None:
    things = [cache.environment(name, 60) for name in "abc"]
    assert await cache.trim(10**9, to_free=150) == 200
    assert sum(path.exists() for path in things) == 1


async def test_what_was_used_just_now_stays(cache: Cache) -> None:
    cache.blob("d" * 64, 9)
    assert await cache.trim(0) == 0
    cache.blob("d" * 64, 11)
    assert await cache.trim(0) == 100


async def test_a_lease_keeps_it(cache: Cache) -> None:
    path = cache.environment("a", 60)
    lease, other = (Lease(path.with_suffix(".used")) for _ in range(2))
    used(path.with_suffix(".used"), 60)
    assert await cache.trim(0) == 0
    lease.release()
    used(path.with_suffix(".used"), 60)
    assert await cache.trim(0) == 0
    assert path.exists()
    other.release()
    used(path.with_suffix(".used"), 60)
    assert await cache.trim(0) == 100


@pytest.fixture
def leased(cache: Cache) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """An environment that a process has leased which says nothing more."""
    path = cache.environment("a", 60)
    argv = [sys.executable, "-c", _OTHER_WORKER, str(path.with_suffix(".used"))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        used(path.with_suffix(".used"), 60)
        yield path, worker
        worker.kill()


async def test_the_lease_of_another_worker_keeps_it_while_that_lives(
    cache: Cache, leased: tuple[Path, subprocess.Popen[bytes]]
) -> None:
    path, worker = leased
    assert await cache.trim(0) == 0
    assert path.exists()
    worker.kill()
    worker.wait()
    assert await cache.trim(0) == 100


async def test_what_is_used_while_others_are_evicted_stays(cache: Cache) -> None:
    path = cache.environment("a", 60)

    def clock() -> float:
        """Looked at when the entries are known: another worker takes one and gives it back."""
        Lease(path.with_suffix(".used")).release()
        return NOW

    assert await Room(cache.folder, 0, clock).trim() == 0
    assert await cache.trim(0) == 100


async def test_a_lease_that_nobody_has_is_none(cache: Cache) -> None:
    path = cache.environment("a", 60)
    lease = Lease(path.with_suffix(".used"))
    del lease
    gc.collect()
    used(path.with_suffix(".used"), 60)
    assert await cache.trim(0) == 100


async def test_use_begins_and_ends_with_a_lease(cache: Cache) -> None:
    lock = cache.environment("a", 60).with_suffix(".used")
    lease = Lease(lock)
    assert lock.stat().st_mtime > time.time() - 60
    os.utime(lock, (0, 0))
    lease.release()
    lease.release()
    assert lock.stat().st_mtime > time.time() - 60


@pytest.fixture
def job(cache: Cache) -> Iterator[Path]:
    """An environment that a job runs in, whose worker is gone."""
    path = cache.environment("a", 60)
    variables = {**os.environ, "VIRTUAL_ENV": str(path)}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=variables):
        yield path


@pytest.mark.usefixtures("job")
async def test_a_job_whose_worker_is_gone_keeps_its_environment(cache: Cache) -> None:
    assert await cache.trim(0) == 0


async def test_a_repository_that_is_locked_stays(cache: Cache) -> None:
    path = cache.repository("x", 60)
    async with locked(path.with_suffix(".lock")):
        used(path.with_suffix(".lock"), 60)
        assert await cache.trim(0) == 0
    assert path.exists()


async def test_a_lock_tells_when_it_was_taken(tmp_path: Path) -> None:
    lock = used(tmp_path / "x.lock", 60)
    async with locked(lock):
        assert lock.stat().st_mtime > time.time() - 60


async def test_one_that_was_not_finished_goes_too(cache: Cache) -> None:
    path = cache.environment("a", 60)
    (path / "environment.json").unlink()
    (path / "half").write_bytes(b"x" * 100)
    assert await cache.trim(0) > 0
    assert not path.exists()


async def test_what_killed_processes_left_goes(cache: Cache) -> None:
    cache.environment("a", 60)
    left = [cache.folder / "trash" / "x" / "y", cache.folder / "environments" / "reading-1"]
    for path in left:
        path.mkdir(parents=True)
    used(left[1], 60)
    assert await cache.trim(10**9) == 0
    assert [path.exists() for path in left] == [False, False]


async def test_two_workers_trim_together(cache: Cache) -> None:
    for name in "abcdef":
        cache.environment(name, 60)
    freed = await asyncio.gather(*(cache.trim(300) for _ in range(4)))
    assert sum(freed) == 300
    assert not (cache.folder / "trash").exists()


async def test_a_new_environment_makes_room_and_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    older = cache.environment("a", 60)
    environments = Environments(tmp_path, room=Room(tmp_path, 0, lambda: NOW))
    steps: list[str] = []

    async def step(name: str, argv: object) -> None:
        steps.append(name)
        process = await asyncio.create_subprocess_exec(*argv)  # type: ignore[misc]
        assert await process.wait() == 0

    made = await environments.environment(Listed(""), step)
    assert not older.exists()
    assert (made.path / "bin" / "python").exists()
    facts = json.loads((made.path / "environment.json").read_bytes())
    assert 0 < facts["bytes"] <= disk_usage(made.path)
    made.lease.release()


async def test_a_full_disk_makes_room_for_the_next_attempt(tmp_path: Path) -> None:
    older = Cache(tmp_path).environment("a", 60)

    async def full(name: str, argv: object) -> None:
        raise DiskFull("no space is left")

    room = Room(tmp_path, 10**9, lambda: NOW)
    with pytest.raises(DiskFull):
        await Environments(tmp_path, room=room).environment(Listed(""), full)
    assert not older.exists()


async def test_a_blob_is_used_when_it_is_asked_for(tmp_path: Path) -> None:
    blob = Cache(tmp_path).blob("d" * 64, 60)
    async with ApiClient.to("http://127.0.0.1:1", "token") as client:
        assert await BlobCache(tmp_path, client).file("d" * 64) == blob
    assert blob.stat().st_mtime > time.time() - 60


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    variables = {"XMCLOUD_HOME": str(tmp_path), "XMCLOUD_WORKER_CACHE_LIMIT_BYTES": "1000"}
    flags = {"url": "http://127.0.0.1:1", "token": "token"}
    assert load_settings(flags, variables).cache_limit_bytes == 1000
    del variables["XMCLOUD_WORKER_CACHE_LIMIT_BYTES"]
    assert load_settings(flags, variables).cache_limit_bytes == 50 * 10**9
