"""Blobs in a folder."""

import asyncio
import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from xmcloud.core.errors import InvalidInput, NotFound, StorageFull, Unavailable

_PART = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+\Z")
_PREFIX_END = re.compile(r"[A-Za-z0-9._-]*\Z")
_TEMPORARY = "~new"
"""The folder of blobs that are being written; no key can name it."""

_PIECE_BYTES = 1024 * 1024


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(str(root)) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO):
            raise Unavailable(
                f"{error.filename or root}: {error.strerror}.", "Check the folder's permissions."
            ) from error
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _path(root: Path, key: str) -> Path:
    if not all(_PART.match(part) for part in key.split("/")):
        raise InvalidInput("key", key, "names of A-Z a-z 0-9 . _ - with / between them")
    return root / key


def _folder(root: Path, prefix: str) -> Path:
    """The folder in which everything lies that begins with `prefix`."""
    *parts, last = prefix.split("/")
    if not (all(_PART.match(part) for part in parts) and _PREFIX_END.match(last)):
        raise InvalidInput("prefix", prefix, "the beginning of a key")
    return root.joinpath(*parts)


def _make_folder(folder: Path) -> None:
    """Durable, with its parents."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _sync_folder(folder.parent)


def _write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())


def _move(new: Path, path: Path) -> None:
    while True:
        try:
            _make_folder(path.parent)
            new.replace(path)
        except FileNotFoundError:  # a delete removed the folder, which was empty
            if new.exists():
                continue
            raise
        break
    with suppress(FileNotFoundError):  # deleted meanwhile
        _sync_folder(path.parent)


def _put(root: Path, key: str, fill: Callable[[BinaryIO], object]) -> None:
    path = _path(root, key)
    new = root / _TEMPORARY / uuid.uuid4().hex
    with _explained(root):
        try:
            _write(new, fill)
            _move(new, path)
        except (NotADirectoryError, FileExistsError, IsADirectoryError) as error:
            raise InvalidInput(
                "key", key, "neither a folder of other keys nor under one"
            ) from error
        finally:
            new.unlink(missing_ok=True)


@contextmanager
def _reading(root: Path, key: str) -> Iterator[BinaryIO]:
    path = _path(root, key)
    with _explained(root):
        try:
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound("blob", key) from error
        with file:
            yield file


def _get(root: Path, key: str, start: int, end: int | None) -> bytes:
    with _reading(root, key) as file:
        file.seek(start)
        return file.read() if end is None else file.read(max(0, end - start))


def _compose(root: Path, key: str, parts: Sequence[str]) -> None:
    def fill(file: BinaryIO) -> None:
        for part in parts:
            with _reading(root, part) as source:
                shutil.copyfileobj(source, file, _PIECE_BYTES)

    _put(root, key, fill)


def _list(
    root: Path, prefix: str, after: str = "", limit: int | None = None
) -> list[tuple[str, int]]:
    folder = _folder(root, prefix)
    base = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
    with _explained(root):
        return list(islice(_walk(folder, base, prefix, after), limit))


def _walk(folder: Path | str, base: str, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    """In order of key, which is that of the names if folders end with a slash."""
    try:
        with os.scandir(folder) as entries:
            found = [(f"{base}{e.name}{'/' * e.is_dir(follow_symlinks=False)}", e) for e in entries]
    except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile
        return
    for key, entry in sorted(found, key=itemgetter(0)):
        if key.endswith("/"):
            wanted = key.startswith(prefix) or prefix.startswith(key)
            if wanted and (key > after or after.startswith(key)) and entry.name != _TEMPORARY:
                yield from _walk(entry.path, key, prefix, after)
        elif key.startswith(prefix) and key > after:
            with suppress(FileNotFoundError):  # deleted meanwhile
                yield key, entry.stat().st_size


def _delete(root: Path, prefix: str) -> None:
    for key, _ in _list(root, prefix):
        path = root / key
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == root:
                break
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # not empty
                break


class FileBlobs:
    """`Blobs` as one file a key, named by it."""

    def __init__(self, root: Path) -> None:
        """Raises `StorageFull` or `Unavailable`."""
        self._root = root
        with _explained(root):
            _make_folder(root / _TEMPORARY)

    async def put(self, key: str, data: bytes) -> None:
        """Raises `InvalidInput` for a key that is no path, or that other keys take for a folder."""
        await asyncio.to_thread(_put, self._root, key, lambda file: file.write(data))

    async def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        return await asyncio.to_thread(_get, self._root, key, start, end)

    async def compose(self, key: str, parts: Sequence[str]) -> None:
        """Raises `InvalidInput` as `put` does."""
        await asyncio.to_thread(_compose, self._root, key, parts)

    async def list(
        self, prefix: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, int]]:
        return await asyncio.to_thread(_list, self._root, prefix, after, limit)

    async def delete(self, prefix: str) -> None:
        await asyncio.to_thread(_delete, self._root, prefix)

    async def close(self) -> None:
        """Nothing is held open between calls."""
