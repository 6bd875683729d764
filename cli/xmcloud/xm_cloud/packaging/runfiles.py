"""The archive of a program that Bazel built: it runs where Bazel never was."""

import os
from collections.abc import Iterator
from pathlib import Path

from xmcloud.core.errors import XmcloudError
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.archives.tar import Entry, padding, tarball
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs, runfiles_of

_MANIFEST = "MANIFEST"
"""At the top of runfiles: where each lies on this machine, which no other should believe."""

_PIECE_BYTES = 1024 * 1024


class BadRunfile(XmcloudError):
    """What a program reads while it runs cannot be taken along."""

    slug, title, status = "bad-runfile", "A runfile cannot be packed", 422

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}.", "Look at what the target names as `data`.")


def pack_binary(outputs: BazelOutputs) -> Spool:
    """A gzipped tar of a program, under its own name, and of its runfiles beside it.

    The same files give the same bytes; links into Bazel's cache become the files themselves. The
    caller closes the spool. Raises UnexpectedOutputs for what is no program, BadRunfile and
    StorageFull.
    """
    program = outputs.program()
    with tarball() as spool:
        _pack(spool, program, runfiles_of(program))
    return spool


def _pack(spool: Spool, program: Path, runfiles: Path) -> None:
    own = None
    for path in _files_below(runfiles, runfiles, frozenset()):
        name = f"{runfiles.name}/{path.relative_to(runfiles).as_posix()}"
        if own is None and _is_link_to(path, program):
            own = name
        _add(spool, path, name, _kept_link(runfiles, path))
    # Where it lies among its runfiles it finds its shared libraries, and from here the rest.
    _add(spool, program, program.name, own)


def _files_below(folder: Path, runfiles: Path, above: frozenset[tuple[int, int]]) -> Iterator[Path]:
    if not folder.is_dir():
        return
    status = folder.stat()
    here = (status.st_dev, status.st_ino)
    if here in above:
        raise BadRunfile(folder, "leads back to a folder that it lies in")
    for path in sorted(folder.iterdir()):
        if path.is_dir() and _kept_link(runfiles, path) is None:
            yield from _files_below(path, runfiles, above | {here})
        elif path != runfiles / _MANIFEST:
            yield path


def _kept_link(runfiles: Path, path: Path) -> str | None:
    """Where a link leads that is as good elsewhere: to another of the runfiles."""
    if not path.is_symlink():
        return None
    target = os.readlink(path)
    reached = Path(os.path.normpath(path.parent / target))
    inside = reached.is_relative_to(runfiles) and os.path.lexists(reached)
    return target if inside and not os.path.isabs(target) else None


def _is_link_to(path: Path, program: Path) -> bool:
    return path.is_symlink() and os.readlink(path) == str(program)


def _add(spool: Spool, path: Path, name: str, link: str | None) -> None:
    if link is not None:
        spool.write(Entry(os.fsencode(name), "link", 0o777, link=os.fsencode(link)).header())
        return
    try:
        _copy(spool, path, os.fsencode(name))
    except OSError as error:
        raise BadRunfile(path, f"cannot be read ({error.strerror})") from None


def _copy(spool: Spool, path: Path, name: bytes) -> None:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        mode, left = 0o755 if status.st_mode & 0o100 else 0o644, status.st_size
        spool.write(Entry(name, "file", mode, left).header())
        while piece := file.read(min(left, _PIECE_BYTES)):
            spool.write(piece)
            left -= len(piece)
    if left:
        raise BadRunfile(path, "became shorter while it was packed")
    spool.write(bytes(padding(status.st_size)))
