"""What the API refuses before it looks at it."""

from collections.abc import AsyncIterator

import pytest

from tests.functions.api import Api, problem
from xmcloud.core.blobs import PART_LIMIT
from xmcloud.functions.http.limits import BODY_LIMIT

pytestmark = pytest.mark.anyio


class Body:
    """Bytes in pieces, counted as they are asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.sent = size, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.sent < self.size:
            piece = min(1024 * 1024, self.size - self.sent)
            self.sent += piece
            yield b"x" * piece


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", f"/blobs/{'0' * 64}"), ("POST", "/experiments")]
)
async def test_a_body_declared_too_large_is_not_read(api: Api, method: str, path: str) -> None:
    body = Body(BODY_LIMIT + 1)
    headers = {"Content-Length": str(BODY_LIMIT + 1)}
    found = await api.refused(method, path, 413, content=body, headers=headers)
    assert found.type == "urn:xmcloud:problem:too-large"
    assert found.detail == f"The request has {BODY_LIMIT + 1:,} bytes; the limit is 33,554,432."
    assert body.sent <= 1024 * 1024


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", f"/blobs/{'0' * 64}"), ("POST", "/experiments")]
)
async def test_a_body_that_grows_too_large(api: Api, method: str, path: str) -> None:
    body = Body(4 * BODY_LIMIT)
    response = await api.http.request(method, f"/v1{path}", content=body)
    assert "content-length" not in response.request.headers
    found = problem(response)
    assert (found.status, found.type) == (413, "urn:xmcloud:problem:too-large")
    assert body.sent <= BODY_LIMIT + 1024 * 1024


async def test_a_body_of_just_the_limit_is_read(api: Api) -> None:
    found = await api.refused("PUT", f"/blobs/{'0' * 64}", 422, content=Body(BODY_LIMIT))
    assert found.field == "digest"


async def test_a_part_larger_than_a_part_may_be(api: Api) -> None:
    path = f"/blobs/{'0' * 64}/parts/{'1' * 64}"
    found = await api.refused("PUT", path, 413, content=Body(PART_LIMIT + 1))
    assert found.detail == "The part has 16,777,217 bytes; the limit is 16,777,216."


async def test_a_body_that_is_not_sent_as_json(api: Api) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    found = await api.refused(
        "POST", "/experiments", 422, content=b'{"title": "a"}', headers=headers
    )
    assert found.detail == "The body was not sent as JSON."
    assert found.remedy == "Send it with the header Content-Type: application/json."


@pytest.mark.parametrize("path", ["/", "/experiments/", "/nothing", "/jobs/a/explode"])
async def test_a_path_that_is_none(api: Api, path: str) -> None:
    found = await api.refused("GET", path, 404)
    assert (found.type, found.title) == ("about:blank", "Not Found")


async def test_a_method_that_is_none(api: Api) -> None:
    response = await api.call("DELETE", "/experiments", status=405)
    assert problem(response).title == "Method Not Allowed"
    assert response.headers["allow"] in ("GET", "POST", "GET, POST", "POST, GET")
