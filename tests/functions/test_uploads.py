"""The worker stores files whole, over a network that fails."""

import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.functions.api import TOKEN
from tests.functions.worker_rig import Rig, opened_rig
from tests.support.wire import TransportWire
from xmcloud.worker.client import ApiClient, Refused
from xmcloud.worker.uploads import PART_BYTES, upload

pytestmark = pytest.mark.anyio

DATA = random.Random(1).randbytes(2 * PART_BYTES) + bytes(PART_BYTES + 1)


class Line(httpx.AsyncBaseTransport):
    """Notes what was asked; the answers with these numbers get lost."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *lost: int) -> None:
        self._inner, self._lost = inner, lost
        self.asked: list[str] = []
        self.longest = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path.count('/') - 2}")
        self.longest = max(self.longest, len(request.content))
        response = await self._inner.handle_async_request(request)
        if len(self.asked) - 1 in self._lost:
            raise httpx.ReadError("the connection broke", request=request)
        return response


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


def client(line: Line) -> ApiClient:
    return ApiClient(TransportWire(line, TOKEN), "http://api")


async def stored(rig: Rig, digest: str) -> bytes:
    return await rig.api.plane.blobs.get(f"content/{digest}")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [b"", b"x" * PART_BYTES])
async def test_a_file_goes_up_whole_and_once(rig: Rig, tmp_path: Path, data: bytes) -> None:
    line, path = Line(rig.network, 1), written(tmp_path, data)
    async with client(line) as api:
        digest = await upload(api, path)
        assert await stored(rig, digest) == data
        assert line.asked == ["HEAD 1", "PUT 1", "PUT 1"]
        assert await upload(api, path) == digest
    assert line.asked[3:] == ["HEAD 1"]


async def test_a_large_file_goes_up_in_parts_through_outages(rig: Rig, tmp_path: Path) -> None:
    line, path = Line(rig.network, 3, 6), written(tmp_path, DATA)
    async with client(line) as api:
        digest = await upload(api, path)
    assert await stored(rig, digest) == DATA
    assert line.longest <= PART_BYTES
    assert line.asked == ["HEAD 1", "GET 2", *["PUT 3"] * 6, "POST 2"]


async def test_parts_that_are_there_do_not_go_up_again(rig: Rig, tmp_path: Path) -> None:
    path, whole = written(tmp_path, DATA), hashlib.sha256(DATA).hexdigest()
    part = DATA[:PART_BYTES]
    key = f"uploads/{whole}/{hashlib.sha256(part).hexdigest()}"
    await rig.api.plane.blobs.put(key, part)
    line = Line(rig.network)
    async with client(line) as api:
        assert await upload(api, path) == whole
    assert line.asked == ["HEAD 1", "GET 2", *["PUT 3"] * 3, "POST 2"]
    assert await stored(rig, whole) == DATA


async def test_a_file_that_changes_meanwhile_is_refused(rig: Rig, tmp_path: Path) -> None:
    path = written(tmp_path, b"first")

    class Changing(Line):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            path.write_bytes(b"other")
            return await super().handle_async_request(request)

    async with client(Changing(rig.network)) as api:
        with pytest.raises(Refused, match="SHA-256"):
            await upload(api, path)
