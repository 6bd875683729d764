"""The worker stores files whole, over a network that fails."""

import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.functions.lossy_line import Line
from tests.functions.worker_rig import Rig, opened_rig
from xmcloud.worker.client import Refused
from xmcloud.worker.uploads import PART_BYTES, upload

pytestmark = pytest.mark.anyio

DATA = random.Random(1).randbytes(2 * PART_BYTES) + bytes(PART_BYTES + 1)


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


def asked(line: Line) -> list[str]:
    """Methods, and how deep the paths are."""
    return [f"{each.method} {each.url.path.count('/') - 2}" for each in line.requests]


async def stored(rig: Rig, digest: str) -> bytes:
    return await rig.api.plane.blobs.get(f"content/{digest}")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [b"", b"x" * PART_BYTES])
async def test_a_file_goes_up_whole_and_once(rig: Rig, tmp_path: Path, data: bytes) -> None:
    line, path = Line(rig.network, 1), written(tmp_path, data)
    async with line.client() as api:
        digest = await upload(api, path)
        assert await stored(rig, digest) == data
        assert asked(line) == ["HEAD 1", "PUT 1", "PUT 1"]
        assert await upload(api, path) == digest
    assert asked(line)[3:] == ["HEAD 1"]


async def test_a_large_file_goes_up_in_parts_through_outages(rig: Rig, tmp_path: Path) -> None:
    line, path = Line(rig.network, 3, 6), written(tmp_path, DATA)
    async with line.client() as api:
        digest = await upload(api, path)
    assert await stored(rig, digest) == DATA
    assert line.longest_request <= PART_BYTES
    assert asked(line) == ["HEAD 1", "GET 2", *["PUT 3"] * 6, "POST 2"]


async def test_parts_that_are_there_do_not_go_up_again(rig: Rig, tmp_path: Path) -> None:
    path, whole = written(tmp_path, DATA), hashlib.sha256(DATA).hexdigest()
    part = DATA[:PART_BYTES]
    key = f"uploads/{whole}/{hashlib.sha256(part).hexdigest()}"
    await rig.api.plane.blobs.put(key, part)
    line = Line(rig.network)
    async with line.client() as api:
        assert await upload(api, path) == whole
    assert asked(line) == ["HEAD 1", "GET 2", *["PUT 3"] * 3, "POST 2"]
    assert await stored(rig, whole) == DATA


async def test_a_file_that_changes_meanwhile_is_refused(rig: Rig, tmp_path: Path) -> None:
    path = written(tmp_path, b"first")

    class Changing(Line):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            path.write_bytes(b"other")
            return await super().handle_async_request(request)

    async with Changing(rig.network).client() as api:
        with pytest.raises(Refused, match="SHA-256"):
            await upload(api, path)
