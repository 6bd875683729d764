"""The worker fetches blobs in pieces, from the API in this process over a network that fails."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.functions.lossy_line import Line
from tests.functions.worker_rig import Rig, opened_rig
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import DamagedBlob, Refused

pytestmark = pytest.mark.anyio

DATA = random.Random(1).randbytes(17 * 1024 * 1024)


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


async def stored(rig: Rig) -> str:
    return await rig.blob(DATA)


async def test_a_large_blob_comes_in_pieces(rig: Rig, tmp_path: Path) -> None:
    digest, line = await stored(rig), Line(rig.network)
    async with line.client() as api:
        path = await BlobCache(tmp_path, api).file(digest)
    assert path.read_bytes() == DATA
    assert len(line.requests) == 3
    assert line.longest_answer == 8 * 1024 * 1024


async def test_what_broke_off_goes_on_at_the_last_piece(rig: Rig, tmp_path: Path) -> None:
    digest, line = await stored(rig), Line(rig.network, 1)
    async with line.client() as api:
        await api.download(digest, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == DATA
    assert [each.headers["range"].split("-")[0] for each in line.requests] == [
        "bytes=0", "bytes=8388608", "bytes=8388608", "bytes=16777216",
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"x"])
async def test_a_small_blob_takes_one_request(rig: Rig, tmp_path: Path, data: bytes) -> None:
    digest, line = await rig.blob(data), Line(rig.network)
    async with line.client() as api:
        await api.download(digest, tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == data
    assert len(line.requests) == 1


async def test_damage_is_found(rig: Rig, tmp_path: Path) -> None:
    digest = await stored(rig)
    await rig.disk.put(f"content/{digest}", DATA[:-1] + b"?")
    async with Line(rig.network).client() as api:
        with pytest.raises(DamagedBlob, match=digest):
            await BlobCache(tmp_path, api).file(digest)
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [f"{digest}.lock"]


async def test_what_nobody_has_is_refused(rig: Rig, tmp_path: Path) -> None:
    async with Line(rig.network).client() as api:
        with pytest.raises(Refused, match="There is no blob"):
            await api.download("0" * 64, tmp_path / "blob")
