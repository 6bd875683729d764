"""Tar files in bytes that are laid down here, and so are the same under every Python.

Ustar with pax records (POSIX.1-2001) for what ustar has no room for.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from xmcloud.xm_cloud.archives.spool import Spool

BLOCK = 512
END = bytes(2 * BLOCK)
EPOCH = 315_532_800
"""1980-01-01: the earliest time that zip files, and so wheels made on the worker, can carry."""

_NAME_BYTES = 100
_SIZE_LIMIT = 8**11

_FILE, _LINK, _FOLDER, _PAX = b"0", b"2", b"5", b"x"
_TYPES: Mapping[str, bytes] = {"file": _FILE, "link": _LINK, "folder": _FOLDER}


@dataclass(frozen=True, slots=True)
class Entry:
    """What the archive tells of one member; `link` is where a link leads to."""

    name: bytes
    kind: Literal["file", "link", "folder"]
    mode: int
    size: int = 0
    link: bytes = b""

    def header(self) -> bytes:
        """The blocks in front of the content."""
        name = self.name + (b"/" if self.kind == "folder" else b"")
        records = self._records(name)
        own = _block(name, self.mode, self.size, _TYPES[self.kind], self.link)
        if not records:
            return own
        return _block(b"pax", 0o644, len(records), _PAX) + padded(records) + own

    def _records(self, name: bytes) -> bytes:
        """What does not fit in one block."""
        records = {b"path": name} if _too_much(name) else {}
        if _too_much(self.link):
            records[b"linkpath"] = self.link
        if self.size >= _SIZE_LIMIT:
            records[b"size"] = b"%d" % self.size
        if any(not _is_unicode(value) for value in records.values()):
            records = {b"hdrcharset": b"BINARY", **records}
        return b"".join(_record(key, value) for key, value in records.items())


@contextmanager
def tarball() -> Iterator[Spool]:
    """To write members to: whole after the block, and the caller closes it; closed if that failed.

    Raises `StorageFull`.
    """
    spool = Spool()
    try:
        yield spool
        spool.write(END)
        spool.finish()
    except BaseException:
        spool.close()
        raise


def file_of(name: bytes, mode: int, data: bytes) -> bytes:
    """The blocks of a file that is in memory."""
    return Entry(name, "file", mode, len(data)).header() + padded(data)


def padding(size: int) -> int:
    """How many zeros follow content of that size."""
    return -size % BLOCK


def padded(data: bytes) -> bytes:
    return data + bytes(padding(len(data)))


def _block(name: bytes, mode: int, size: int, kind: bytes, link: bytes = b"") -> bytes:
    fields = (
        name[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % (size if size < _SIZE_LIMIT else 0),
        b"%011o\0" % EPOCH,
        b" " * 8,
        kind,
        link[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
        b"ustar\x0000",
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" %b=%b\n" % (key, value)
    length = len(rest) + len(str(len(rest)))
    if len(str(length)) + len(rest) != length:
        length += 1
    return b"%d%b" % (length, rest)


def _too_much(text: bytes) -> bool:
    return len(text) > _NAME_BYTES or not text.isascii()


def _is_unicode(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
