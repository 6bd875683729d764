"""/v1/blobs over HTTP."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from tests.functions.api import Api, problem
from xmcloud.core.blobs import BlobParts, StoredBlob

pytestmark = pytest.mark.anyio

BYTES = {"Content-Type": "application/octet-stream"}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("data", [b"", b"\0\xff bytes", b"x" * 3_000_000], ids=len)
async def test_up_and_down(api: Api, data: bytes) -> None:
    path = f"/blobs/{digest(data)}"
    await api.call("HEAD", path, status=404)
    await api.refused("GET", path, 404)
    await api.call("PUT", path, status=201, content=data, headers=BYTES)
    await api.call("PUT", path, status=200, content=data, headers=BYTES)
    assert (await api.call("HEAD", path)).headers["content-length"] == str(len(data))
    got = await api.call("GET", path)
    assert got.content == data
    assert got.headers["content-type"] == "application/octet-stream"


async def test_up_in_pieces(api: Api) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * 1000

    path = f"/blobs/{digest(b'x' * 10_000)}"
    await api.call("PUT", path, status=201, content=pieces(), headers=BYTES)
    assert (await api.call("GET", path)).content == b"x" * 10_000


async def test_bytes_that_are_not_those_of_the_digest(api: Api) -> None:
    path = f"/blobs/{digest(b'one')}"
    found = await api.refused("PUT", path, 422, content=b"two", headers=BYTES)
    assert found.field == "digest"
    assert found.remedy == "It must be the SHA-256 of the body."
    await api.call("HEAD", path, status=404)


@pytest.mark.parametrize("name", ["abc", "A" * 64, "g" * 64, "0" * 65, "..%2f..%2ftoken"])
async def test_a_digest_that_is_none(api: Api, name: str) -> None:
    for method in ("PUT", "GET"):
        response = await api.http.request(method, f"/v1/blobs/{name}")
        assert response.status_code in (404, 422)
        assert response.headers["content-type"] == "application/problem+json"


async def stored(api: Api, data: bytes) -> str:
    path = f"/blobs/{digest(data)}"
    await api.call("PUT", path, status=201, content=data, headers=BYTES)
    return path


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("bytes=0-3", (0, 4)),
        ("bytes=2-", (2, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-30", (0, 10)),
        ("bytes=9-1000", (9, 10)),
        ("bytes=0-0", (0, 1)),
    ],
)
async def test_a_range(api: Api, wanted: str, expected: tuple[int, int]) -> None:
    data, (start, end) = b"0123456789", expected
    path = await stored(api, data)
    got = await api.call("GET", path, status=206, headers={"Range": wanted})
    assert got.content == data[start:end]
    assert got.headers["content-range"] == f"bytes {start}-{end - 1}/10"
    assert got.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=-0", "bytes=99-100"])
async def test_a_range_beyond_the_end(api: Api, wanted: str) -> None:
    path = await stored(api, b"0123456789")
    response = await api.call("GET", path, status=416, headers={"Range": wanted})
    assert problem(response).type == "urn:xmcloud:problem:range-not-satisfiable"
    assert response.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize("wanted", ["bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "bytes=-", "x"])
async def test_a_range_that_is_none_gives_the_whole(api: Api, wanted: str) -> None:
    path = await stored(api, b"0123456789")
    assert (await api.call("GET", path, headers={"Range": wanted})).content == b"0123456789"


async def test_an_empty_blob_has_no_ranges(api: Api) -> None:
    path = await stored(api, b"")
    assert (await api.call("GET", path, headers={"Range": "bytes=0-"})).content == b""


PARTS = [b"a" * 70_000, b"b" * 70_000, b"a" * 70_000, b"c"]
WHOLE = b"".join(PARTS)
PATH = f"/blobs/{digest(WHOLE)}"
COMPLETE = {"parts": [digest(part) for part in PARTS]}


async def send(api: Api, *parts: bytes, status: int = 201) -> None:
    for part in parts:
        path = f"{PATH}/parts/{digest(part)}"
        await api.call("PUT", path, status=status, content=part, headers=BYTES)


async def there(api: Api) -> dict[str, int]:
    found = await api.get(BlobParts, f"{PATH}/parts")
    return {part.digest: part.size for part in found.parts}


async def test_parts_become_one_blob(api: Api) -> None:
    assert await there(api) == {}
    await send(api, *PARTS[:2])
    await send(api, PARTS[0], status=200)
    assert await there(api) == {digest(part): len(part) for part in PARTS[:2]}
    await api.call("HEAD", PATH, status=404)
    await send(api, PARTS[3])
    made = await api.post(StoredBlob, f"{PATH}/complete", COMPLETE, 201)
    assert (made.digest, made.size) == (digest(WHOLE), len(WHOLE))
    assert (await api.call("GET", PATH)).content == WHOLE
    assert await api.plane.blobs.get(f"content/{digest(WHOLE)}") == WHOLE
    assert await api.plane.blobs.list("uploads/") == []
    assert await api.post(StoredBlob, f"{PATH}/complete", COMPLETE, 200) == made


async def test_parts_that_come_after_the_blob_are_removed(api: Api) -> None:
    await stored(api, WHOLE)
    await send(api, PARTS[0])
    await api.post(StoredBlob, f"{PATH}/complete", COMPLETE, 200)
    assert await api.plane.blobs.list("uploads/") == []


async def test_two_may_complete_it_at_once(api: Api) -> None:
    await send(api, *PARTS[:2], PARTS[3])
    """Cloud Storage may tell one that it is too busy; asked again, it is done."""

    async def complete() -> int:
        while (answer := await api.http.post(f"/v1{PATH}/complete", json=COMPLETE)).status_code:
            if answer.status_code != 503:
                break
        return answer.status_code

    assert {*await asyncio.gather(*(complete() for _ in range(4)))} <= {200, 201}
    assert (await api.call("GET", PATH)).content == WHOLE


async def test_a_part_that_is_missing_is_named(api: Api) -> None:
    await send(api, *PARTS[:2])
    found = await api.refused("POST", f"{PATH}/complete", 404, COMPLETE)
    assert found.detail == f"There is no part '{digest(PARTS[3])}'."
    assert found.remedy == "Send the part, then complete the blob again."
    assert len(await there(api)) == 2


async def test_parts_that_make_something_else_are_removed(api: Api) -> None:
    await send(api, *PARTS[:2], PARTS[3])
    for others in (COMPLETE["parts"][::-1], COMPLETE["parts"][:3]):
        await send(api, *PARTS[:2], PARTS[3], status=201 if not await there(api) else 200)
        found = await api.refused("POST", f"{PATH}/complete", 422, {"parts": others})
        assert found.remedy == "It must be the SHA-256 of the parts, one after the other."
        assert await there(api) == {}
    await api.call("HEAD", PATH, status=404)
    assert await api.plane.blobs.list("") == []


async def test_a_part_that_is_not_its_digest(api: Api) -> None:
    path = f"{PATH}/parts/{digest(b'one')}"
    assert (await api.refused("PUT", path, 422, content=b"two", headers=BYTES)).field == "part"
    assert await there(api) == {}


@pytest.mark.parametrize("parts", [[], ["a"], ["0" * 64] * 2049], ids=len)
async def test_a_completion_that_is_none(api: Api, parts: list[str]) -> None:
    await api.refused("POST", f"{PATH}/complete", 422, {"parts": parts})
