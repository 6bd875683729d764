"""Content goes up once: by its digest, in parts if it is large, and on from where it broke off."""

import hashlib
import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from xmcloud.core.blobs import PARTS_LIMIT
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.xm_cloud.archives.spool import Spool

Report = Callable[[int, int], None]
"""Is told the bytes that are done and all of them."""

Sent = Callable[[int], None]
"""Is told how many bytes of one body are sent; fewer again when the body is repeated."""

PART_BYTES = 8 * 1024 * 1024
QUIET_SECONDS = 1.0
"""What takes no longer is not reported."""

_READ_BYTES = 1024 * 1024


class BlobStore(Protocol):
    """What uploads need of the client."""

    def has_blob(self, digest: str) -> bool: ...

    def put_blob(self, digest: str, data: bytes, sent: Sent | None = None) -> None: ...

    def parts(self, digest: str) -> set[str]:
        """The digests of the parts that are there."""

    def put_part(self, digest: str, part: str, data: bytes, sent: Sent | None = None) -> None: ...

    def complete_blob(self, digest: str, parts: Sequence[str]) -> None: ...


def upload_folder(
    blobs: BlobStore,
    folder: Path,
    prefix: str = "",
    extra: Mapping[str, bytes] | None = None,
    report: Report | None = None,
) -> str:
    """The digest of the folder's archive; raises as `pack` and `upload` do."""
    from xmcloud.xm_cloud.archives.archive import pack

    with pack(folder, prefix, extra) as archive:
        return upload(blobs, f"The archive of {folder}", archive, report)


def upload(
    blobs: BlobStore,
    what: str,
    content: bytes | Path | Spool,
    report: Report | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """The digest of the content, which the control plane has when this returns.

    After the first second `report` is told of the progress. Raises `TooLarge`, and `InvalidInput`
    for a file that cannot be read.
    """
    with _opened(content) as file:
        size = file.seek(0, io.SEEK_END)
        if size > PARTS_LIMIT * PART_BYTES:
            raise TooLarge(what, size, PARTS_LIMIT * PART_BYTES)
        digest = content.digest if isinstance(content, Spool) else _digest(file)
        with _one_at_a_time(digest):
            if not blobs.has_blob(digest):
                _send(blobs, digest, file, _Progress(size, report, now))
    return digest


class _Progress:
    """Tells how far an upload is, once it has taken a while."""

    def __init__(self, size: int, report: Report | None, now: Callable[[], float]) -> None:
        self.size, self._report, self._now = size, report, now
        self._quiet_until = now() + QUIET_SECONDS

    def behind(self, start: int) -> Sent:
        """For a body whose first byte is the content's byte `start`."""
        return lambda sent: self.reached(start + sent)

    def reached(self, done: int) -> None:
        if self._report is not None and self._now() >= self._quiet_until:
            self._report(done, self.size)


def _send(blobs: BlobStore, digest: str, file: IO[bytes], progress: _Progress) -> None:
    file.seek(0)
    if progress.size <= PART_BYTES:
        blobs.put_blob(digest, file.read(), progress.reached)
        return
    there = blobs.parts(digest)
    parts: list[str] = []
    for start in range(0, progress.size, PART_BYTES):
        data = file.read(PART_BYTES)
        part = hashlib.sha256(data).hexdigest()
        if part not in there:
            blobs.put_part(digest, part, data, progress.behind(start))
            there.add(part)
        progress.reached(start + len(data))
        parts.append(part)
    blobs.complete_blob(digest, parts)


def _digest(file: IO[bytes]) -> str:
    found = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_READ_BYTES):
        found.update(piece)
    return found.hexdigest()


@contextmanager
def _opened(content: bytes | Path | Spool) -> Iterator[IO[bytes]]:
    if isinstance(content, Spool):
        yield content.file
    elif isinstance(content, bytes):
        yield io.BytesIO(content)
    else:
        try:
            file = content.open("rb")
        except OSError as error:
            expected = f"readable ({error.strerror})"
            raise InvalidInput("path", str(content), expected) from None
        with file:
            yield file


_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_taking_turns = threading.Lock()


@contextmanager
def _one_at_a_time(digest: str) -> Iterator[None]:
    """Two threads with the same content: the second finds it there."""
    with _taking_turns:
        turn = _turns[digest]
    with turn:
        yield
