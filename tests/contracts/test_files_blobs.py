"""What blobs in a folder promise beyond the port."""

import asyncio
import stat
from pathlib import Path

import pytest

from xmcloud.adapters.files import FileBlobs
from xmcloud.core.errors import InvalidInput, StorageFull

pytestmark = pytest.mark.anyio


def tree(folder: Path) -> dict[str, int]:
    """What is in the folder and its permissions."""
    paths = [folder, *folder.rglob("*")]
    return {str(p.relative_to(folder)): stat.S_IMODE(p.stat().st_mode) for p in paths}


async def test_only_the_owner_may_read(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    await blobs.put("logs/a", b"secret")
    modes = tree(tmp_path / "blobs")
    assert modes.pop("logs/a") == 0o600
    assert set(modes.values()) == {0o700}


async def test_deleting_leaves_no_empty_folders(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    before = tree(tmp_path)
    await blobs.put("a/b/c/d", b"")
    await blobs.delete("a")
    assert tree(tmp_path) == before


async def test_a_put_survives_deletes_beside_it(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)

    async def put() -> None:
        for n in range(50):
            await blobs.put(f"a/b/kept{n}", b"")
            await blobs.delete(f"a/b/kept{n}")

    async def delete() -> None:
        for _ in range(50):
            await blobs.put("a/b/gone", b"")
            await blobs.delete("a/b/gone")

    await asyncio.gather(put(), delete())
    assert await blobs.list("") == []


async def test_a_key_is_no_folder_of_other_keys(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    await blobs.put("a/b", b"kept")
    for key in ("a", "a/b/c"):
        with pytest.raises(InvalidInput):
            await blobs.put(key, b"")
    assert await blobs.list("") == [("a/b", 4)]
    assert await blobs.get("a/b") == b"kept"


async def test_a_full_disk_leaves_the_old_blob(small_disk: Path) -> None:
    blobs = FileBlobs(small_disk)
    await blobs.put("a", b"old")
    with pytest.raises(StorageFull, match=str(small_disk)):
        await blobs.put("a", b"x" * 1024 * 1024)
    assert await blobs.get("a") == b"old"
    await blobs.put("a", b"x" * 200_000)


async def test_a_disk_that_fills_while_composing_leaves_the_old_blob(small_disk: Path) -> None:
    blobs = FileBlobs(small_disk)
    await blobs.put("part", b"x" * 100_000)
    await blobs.put("whole", b"old")
    with pytest.raises(StorageFull, match=str(small_disk)):
        await blobs.compose("whole", ["part"] * 6)
    assert await blobs.get("whole") == b"old"
    await blobs.compose("whole", ["part"] * 2)
    assert await blobs.list("") == [("part", 100_000), ("whole", 200_000)]
