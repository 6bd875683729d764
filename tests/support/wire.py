"""The worker's wire over an httpx transport: the API in this process, or a fake of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from xmcloud.core.errors import Unavailable
from xmcloud.worker.wire import Response


class TransportWire:
    """`Wire`; every request goes to the transport."""

    def __init__(self, transport: httpx.AsyncBaseTransport, token: str) -> None:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._http = httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers)

    async def send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], seconds: float
    ) -> Response:
        with _broken():
            answer = await self._http.request(method, path, content=body, headers=dict(headers))
        content_range = answer.headers.get("content-range", "")
        retry_after = answer.headers.get("retry-after", "")
        return Response(path, answer.status_code, answer.content, content_range, retry_after)

    async def close(self) -> None:
        await self._http.aclose()


@contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise Unavailable(str(error)) from error
