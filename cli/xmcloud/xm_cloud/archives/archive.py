"""Source archives: the same files always give the same bytes."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.archives.ignore import files_below
from xmcloud.xm_cloud.archives.sizes import (
    WARNING_BYTES,
    ArchiveTooLarge,
    archive_limit,
    largest,
    shown,
)
from xmcloud.xm_cloud.archives.spool import Spool, stored_size
from xmcloud.xm_cloud.archives.tar import END, Entry, padding, tarball

_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Member:
    """What will be in the archive, and what it is read from."""

    entry: Entry
    content: Path | bytes = b""

    def tar_size(self) -> int:
        return len(self.entry.header()) + self.entry.size + padding(self.entry.size)


def pack(folder: Path, prefix: str = "", extra: Mapping[str, bytes] | None = None) -> Spool:
    """A gzipped tar of the folder's files below `prefix`, with `extra` executable files added.

    Modes, symbolic links and empty folders are kept, owners and times are not. The caller closes
    the spool. Says on stderr when it is large. Raises `ArchiveTooLarge`, `StorageFull`, and
    `InvalidInput` for what cannot be carried: no such folder, an unreadable file, a link that
    leads out of the folder.
    """
    if not folder.is_dir():
        raise InvalidInput("path", str(folder), "a folder")
    folder = folder.resolve()
    members = list(_members(folder, os.fsencode(prefix), extra or {}))
    if not members:
        raise InvalidInput("path", str(folder), "a folder with files that are not ignored")
    _check_size(folder, len(os.fsencode(prefix)), members)
    with tarball() as spool:
        for member in members:
            _write(spool, member)
    return spool


def _members(folder: Path, prefix: bytes, extra: Mapping[str, bytes]) -> Iterator[_Member]:
    try:
        for path in files_below(folder):
            if path != folder:
                yield _member(folder, path, prefix)
    except OSError as error:
        raise InvalidInput("path", error.filename, f"readable ({error.strerror})") from None
    for name, data in extra.items():
        yield _Member(Entry(prefix + os.fsencode(name), "file", 0o755, len(data)), data)


def _member(folder: Path, path: Path, prefix: bytes) -> _Member:
    name, status = prefix + os.fsencode(path.relative_to(folder)), path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return _Member(Entry(name, "link", 0o777, link=os.fsencode(_inside(folder, path))))
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        return _Member(Entry(name, "folder", mode))
    return _Member(Entry(name, "file", mode, status.st_size), path)


def _inside(folder: Path, link: Path) -> str:
    target = os.readlink(link)
    reached = os.path.normpath(os.path.join(link.parent, target))
    if os.path.isabs(target) or not Path(reached).is_relative_to(folder):
        raise InvalidInput(
            str(link),
            target,
            "a link to something inside the folder; copy the file, or name the link in "
            ".xmcloudignore",
        )
    return target


def _check_size(folder: Path, prefix: int, members: Sequence[_Member]) -> None:
    size = stored_size(sum(member.tar_size() for member in members) + len(END))
    limit = archive_limit(os.environ)
    if size <= min(limit, WARNING_BYTES):
        return
    sizes = {os.fsdecode(m.entry.name[prefix:]): m.entry.size for m in members}
    if size > limit:
        raise ArchiveTooLarge(folder, size, limit, sizes)
    sys.stderr.write(
        f"xmcloud: The archive of {folder} has {shown(size)}; the largest in it: {largest(sizes)}. "
        "Name what the code does not need in .xmcloudignore.\n"
    )


def _write(spool: Spool, member: _Member) -> None:
    spool.write(member.entry.header())
    if isinstance(member.content, bytes):
        spool.write(member.content)
    else:
        _copy(spool, member.content, member.entry.size)
    spool.write(bytes(padding(member.entry.size)))


def _copy(spool: Spool, path: Path, size: int) -> None:
    """A file that grows meanwhile is taken as it was when its size was read."""
    try:
        with path.open("rb") as file:
            while size:
                piece = file.read(min(size, _PIECE_BYTES))
                if not piece:
                    raise InvalidInput("path", str(path), "left alone while it is packed")
                spool.write(piece)
                size -= len(piece)
    except OSError as error:
        raise InvalidInput("path", str(path), f"readable ({error.strerror})") from None
