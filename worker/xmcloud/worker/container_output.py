"""What a container wrote, as its engine has kept it: read again from the start, it is the same."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker.models.containers import Container as EngineContainer

_FRAME = Struct(">BxxxL")
"""Before each piece: the stream it was written to, and its length."""

_PART_BYTES = 16 * 1024
"""Docker keeps a longer line in parts of this size."""


def log_config(*, podman: bool) -> dict[str, Any]:
    """Of the drivers that the engine can read again, the one that keeps every byte.

    Podman knows its own by the name of Docker's `json-file`, which replaces what is not UTF-8.
    """
    if podman:
        return {"type": "json-file"}
    whole = {"max-size": "1000t", "max-file": "1", "compress": "false"}
    return {"type": "local", "config": whole}


@contextmanager
def reading(container: "EngineContainer", *, follow: bool) -> Iterator[Iterator[bytes]]:
    """All it wrote so far, and what it writes until it ends. Raises DockerException and OSError."""
    import requests
    from docker.errors import create_api_error_from_http_exception

    assert container.client is not None  # those of a client have it
    api = container.client.api
    asked: dict[str, str | int] = {"stdout": 1, "stderr": 1, "follow": int(follow), "tail": "all"}
    where = f"{api.base_url}/v{api.api_version}/containers/{container.id}/logs"
    # As the client reads logs, but for the streams, which it does not tell apart.
    with api.get(where, params=asked, stream=True) as answer:
        try:
            answer.raise_for_status()
        except requests.HTTPError as error:
            create_api_error_from_http_exception(error)
        pieces = answer.iter_content(None)
        yield pieces if container.attrs["Config"]["Tty"] else joined(pieces)


def joined(received: Iterable[bytes]) -> Iterator[bytes]:
    """The content of frames, in the order of writing.

    Docker's `local` driver, until a late version, forgets the end of a line that it kept in parts;
    it is added after a last part, which is shorter than the others.
    """
    buffer, in_parts = bytearray(), dict[int, bool]()
    for data in received:
        buffer += data
        start, ready = 0, list[bytes]()
        while len(buffer) >= start + _FRAME.size:
            stream, size = _FRAME.unpack_from(buffer, start)
            begin = start + _FRAME.size
            if len(buffer) < begin + size:
                break
            start = begin + size
            piece = bytes(buffer[begin:start])
            whole_part = size == _PART_BYTES and not piece.endswith(b"\n")
            if in_parts.get(stream) and not whole_part and not piece.endswith(b"\n"):
                piece += b"\n"
            in_parts[stream] = whole_part
            ready.append(piece)
        del buffer[:start]
        if ready:
            yield b"".join(ready)
