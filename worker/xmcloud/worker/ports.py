"""TCP ports and an address at which the jobs of a group reach each other."""

import socket
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

_TOGETHER = 64
_REMEMBERED = 2048
_TRIES = 10
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class FreePorts:
    """Ports that nobody listens on; one that was told is not told again for a while."""

    def __init__(self) -> None:
        self._told: dict[int, None] = {}

    def some(self, count: int) -> tuple[int, ...]:
        """At most so many, and at most 64; none stays bound."""
        wanted = min(count, _TOGETHER)
        found: list[int] = []
        with ExitStack() as stack:
            for _ in range(wanted + _TRIES):
                if len(found) == wanted:
                    break
                listener = stack.enter_context(socket.socket())
                listener.bind(("", 0))
                port = listener.getsockname()[1]
                if port not in self._told:
                    found.append(port)
        self._told.update(dict.fromkeys(found))
        while len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return tuple(found)


def own_address(url: str) -> str:
    """The address of this machine on the way to a control plane; '' if there is no way now."""
    parts = urlsplit(url)
    if parts.hostname in _LOOPBACK:
        return "127.0.0.1"
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: this only looks up the route.
        probe.connect((parts.hostname, parts.port or 443))
        return str(probe.getsockname()[0])
    return ""
