"""Connections of the client, and bodies that tell how far they are."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xmcloud.xm_cloud.places import on_this_machine

if TYPE_CHECKING:
    import httpx

    from xmcloud.xm_cloud.archives.uploads import Sent

_PIECE_BYTES = 256 * 1024


class Body:
    """Bytes that tell how far they are sent, each time that they are."""

    def __init__(self, data: bytes, sent: "Sent") -> None:
        self._data, self._sent = data, sent

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._data), _PIECE_BYTES):
            piece = self._data[start : start + _PIECE_BYTES]
            yield piece
            self._sent(start + len(piece))


def http_client(url: str, token: str) -> "httpx.Client":
    import httpx

    # A script that shows what it logs means its own work, not each of our requests.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        # Without TLS there is nothing to verify, and loading the certificates takes 30 ms.
        verify=url.startswith("https://"),
        trust_env=not on_this_machine(url),
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=8),
    )
