"""A temporary file of gzip whose bytes depend on what is written alone.

Compressed data differs between versions of zlib, and with it the address of the content. So the
deflate stream is made of stored blocks: any gzip reads them, and the size is known beforehand.
"""

import errno
import hashlib
import struct
import tempfile
import zlib
from types import TracebackType
from typing import IO, Self

from xmcloud.core.errors import StorageFull

IN_MEMORY_BYTES = 8 * 1024 * 1024
"""What is smaller never reaches the disk."""

_BLOCK_BYTES = 65535
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def stored_size(size: int) -> int:
    """Bytes of gzip for so many bytes of content."""
    blocks = -(-size // _BLOCK_BYTES)
    return len(_HEADER) + 5 * blocks + size + 5 + 8


class Spool:
    """Written once, then read; `size` and `digest` are those of the gzip."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - see close
        self._hash = hashlib.sha256()
        self._crc, self._length = 0, 0
        self._rest = b""
        self.size = 0
        self._emit(_HEADER)

    @property
    def file(self) -> IO[bytes]:
        return self._file

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Raises `StorageFull`."""
        self._crc, self._length = zlib.crc32(data, self._crc), self._length + len(data)
        data = self._rest + data
        whole = len(data) - len(data) % _BLOCK_BYTES
        for at in range(0, whole, _BLOCK_BYTES):
            self._block(data[at : at + _BLOCK_BYTES])
        self._rest = data[whole:]

    def finish(self) -> None:
        """Ends the gzip and goes back to its beginning. Raises `StorageFull`."""
        if self._rest:
            self._block(self._rest)
        self._block(b"", final=True)
        self._emit(struct.pack("<LL", self._crc, self._length % 2**32))
        self._file.seek(0)

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _block(self, data: bytes, final: bool = False) -> None:
        size = len(data)
        self._emit(struct.pack("<BHH", final, size, size ^ 0xFFFF) + data)

    def _emit(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(tempfile.gettempdir()) from error
            raise
        self._hash.update(data)
        self.size += len(data)
