"""/v1/blobs over HTTP."""

import hashlib
from collections.abc import AsyncIterator

import pytest

from tests.functions.api import Api

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
    await api.call("HEAD", path)
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
