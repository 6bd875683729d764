"""Credentials as httpx takes them."""

from collections.abc import Generator

import httpx

from xmcloud.xm_cloud.credentials.credentials import Credentials


class Bearer(httpx.Auth):
    """Sends what the credentials say; what was refused, once more with others."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        headers = self._credentials.headers()
        request.headers.update(headers)
        response = yield request
        if response.status_code == 401 and self._credentials.renew(headers):
            request.headers.update(self._credentials.headers())
            yield request
