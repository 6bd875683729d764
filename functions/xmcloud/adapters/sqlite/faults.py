"""What SQLite's error codes mean to a person."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xmcloud.core.errors import CorruptStore, StorageFull, Unavailable, XmcloudError

_NO_ROOM = 64 * 1024
"""Bytes: with less than this free, an input/output error is taken for a full disk."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raises `StorageFull`, `CorruptStore` or `Unavailable` in place of SQLite's own errors."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = explain(error, path)
        if meaning is None:
            raise
        raise meaning from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(str(path)) from error
        raise


def explain(error: sqlite3.Error, path: Path) -> XmcloudError | None:
    """None for an error that only a fault of ours can cause."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StorageFull(str(path))
        case sqlite3.SQLITE_IOERR if shutil.disk_usage(path.parent).free < _NO_ROOM:
            return StorageFull(str(path))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return CorruptStore(str(path), str(error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"Another process holds the database {path}.", "Try again.")
        case sqlite3.SQLITE_IOERR:
            return Unavailable(f"{path}: {error}.", "Check the disk.")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return Unavailable(
                f"{path}: {error}.", "Check that the folder is there and may be written."
            )
    return None
