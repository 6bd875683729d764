"""A worker's way to the API in this process, on which answers get lost."""

import httpx

from tests.functions.api import TOKEN
from tests.support.wire import TransportWire
from xmcloud.worker.client import ApiClient


class Line(httpx.AsyncBaseTransport):
    """Keeps what was asked; the answers with these numbers get lost."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *lost: int) -> None:
        self._inner, self._lost = inner, lost
        self.requests: list[httpx.Request] = []
        self.longest_request = self.longest_answer = 0
        """Bytes of content."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.longest_request = max(self.longest_request, len(request.content))
        response = await self._inner.handle_async_request(request)
        self.longest_answer = max(self.longest_answer, len(await response.aread()))
        if len(self.requests) - 1 in self._lost:
            raise httpx.ReadError("the connection broke", request=request)
        return response

    def client(self) -> ApiClient:
        return ApiClient(TransportWire(self, TOKEN), "http://api")
