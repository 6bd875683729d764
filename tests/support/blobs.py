"""Where uploads go, in memory."""

import hashlib
import threading
from collections.abc import Sequence

from xmcloud.core.errors import NotFound
from xmcloud.xm_cloud.archives.uploads import Sent


class MemoryBlobs:
    """A `BlobStore`; `puts` counts what was sent."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.pending: dict[str, dict[str, bytes]] = {}
        self.puts = 0
        self._lock = threading.Lock()

    def has_blob(self, digest: str) -> bool:
        return digest in self.blobs

    def put_blob(self, digest: str, data: bytes, sent: Sent | None = None) -> None:
        with self._lock:
            self.puts += 1
            self.blobs[digest] = data

    def parts(self, digest: str) -> set[str]:
        return set(self.pending.get(digest, ()))

    def put_part(self, digest: str, part: str, data: bytes, sent: Sent | None = None) -> None:
        with self._lock:
            self.puts += 1
            self.pending.setdefault(digest, {})[part] = data

    def complete_blob(self, digest: str, parts: Sequence[str]) -> None:
        there = self.pending.pop(digest)
        for part in parts:
            if part not in there:
                raise NotFound("part", part)
        data = b"".join(there[part] for part in parts)
        assert hashlib.sha256(data).hexdigest() == digest
        self.blobs[digest] = data
