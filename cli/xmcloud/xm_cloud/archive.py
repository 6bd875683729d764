"""Source archives: the same files always give the same bytes."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.ignore import files_below

EPOCH = 315_532_800
"""1980-01-01: the earliest time that zip files, and so wheels made on the worker, can carry."""


def pack(folder: Path, prefix: str = "", extra: Mapping[str, bytes] | None = None) -> bytes:
    """A gzipped tar of the folder's files below `prefix`, with `extra` executable files added.

    Modes and symbolic links are kept, owners and times are not. Raises `InvalidInput` for what
    cannot be carried: no such folder, an unreadable file, a link that leads out of the folder.
    """
    if not folder.is_dir():
        raise InvalidInput("path", str(folder), "a folder")
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in files_below(folder):
            _add(archive, folder, path, prefix)
        for name, data in (extra or {}).items():
            _add_bytes(archive, prefix + name, data, 0o755)
    return packed.getvalue()


def _add(archive: tarfile.TarFile, folder: Path, path: Path, prefix: str) -> None:
    name = prefix + path.relative_to(folder).as_posix()
    if path.is_symlink():
        link = _member(name, 0o777)
        link.type = tarfile.SYMTYPE
        link.linkname = _inside(folder, path)
        archive.addfile(link)
        return
    try:
        with path.open("rb") as file:
            data, mode = file.read(), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise InvalidInput("path", str(path), f"readable ({error.strerror})") from None
    _add_bytes(archive, name, data, mode & 0o777)


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    member = _member(name, mode)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _member(name: str, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = EPOCH, mode
    return member


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
