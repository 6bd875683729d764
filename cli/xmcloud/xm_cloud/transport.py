"""Connections of the client, and bodies that tell how far they are."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xmcloud.core.trace import Trace
from xmcloud.xm_cloud import tracing
from xmcloud.xm_cloud.credentials.credentials import Credentials
from xmcloud.xm_cloud.places import on_this_machine

if TYPE_CHECKING:
    import httpx

    from xmcloud.xm_cloud.archives.uploads import Sent

Query = Mapping[str, str | int | float | None]

ANSWER_SECONDS = 60.0
"""How long an answer may take, beyond the wait that was asked for."""

LONGEST_PAUSE_SECONDS = 30.0
"""However long the control plane asks to wait."""

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


def exchange(
    http: "httpx.Client",
    of: Trace,
    method: str,
    path: str,
    query: Query,
    body: bytes | Body | None,
    headers: Mapping[str, str],
    wait: float,
) -> "httpx.Response":
    """One request of that trace, sent once. Raises `httpx.TransportError`."""
    import httpx

    with tracing.request(method, path, of) as above:
        return http.request(
            method,
            path,
            params={name: value for name, value in query.items() if value is not None},
            content=body,
            headers={**headers, **above},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=10, read=ANSWER_SECONDS + wait),
        )


def asked_pause(response: "httpx.Response") -> float:
    """The seconds of its header Retry-After, within reason."""
    told = response.headers.get("retry-after", "")
    return min(float(told), LONGEST_PAUSE_SECONDS) if told.isdecimal() else 1.0


def http_client(url: str, credentials: Credentials) -> "httpx.Client":
    import httpx

    from xmcloud.xm_cloud.credentials.bearer import Bearer

    # A script that shows what it logs means its own work, not each of our requests.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.Client(
        base_url=url,
        auth=Bearer(credentials),
        # Without TLS there is nothing to verify, and loading the certificates takes 30 ms.
        verify=url.startswith("https://"),
        trust_env=not on_this_machine(url),
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=8),
    )
