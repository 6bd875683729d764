"""Writes what jobs stored into a folder; names come from results that anybody may have written."""

import csv
import hashlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import click

from xmcloud.cli.documents import StoredFile
from xmcloud.cli.results import Points, printable
from xmcloud.core.errors import NotFound, XmcloudError
from xmcloud.core.names import random_id
from xmcloud.core.series import points
from xmcloud.xm_cloud.client import DOWNLOAD_BYTES, Client


class NotWritten(XmcloudError):
    """A file cannot be written where it was to be."""

    slug, title, status = "not-written", "Not written", 409


class Damaged(XmcloudError):
    """Content arrived that is not what was stored."""

    slug, title, status = "damaged", "Damaged content", 500


def places(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Where each file goes, below the folder. Raises `NotWritten` for two in one place."""
    found: dict[str, Path] = {}
    taken: dict[Path, str] = {}
    for name in names:
        path = folder / _inside(name)
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise NotWritten(f"A link leads {path} out of {folder}.", "Choose another with --to.")
        taken.setdefault(path, name)
        found[name] = path
    for name, path in found.items():
        above = [taken[each] for each in (path, *path.parents) if taken.get(each, name) != name]
        if above:
            raise NotWritten(
                f"{printable(above[0])!r} and {printable(name)!r} do not fit into one folder.",
                "Name one of them, and fetch the other with another --to.",
            )
    return found


def _inside(name: str) -> Path:
    parts = [_plain(part) for part in name.split("/") if part not in ("", ".", "..")]
    return Path(*parts) if parts else Path("_")


def _plain(part: str) -> str:
    return "".join("_" if not c.isprintable() or c in "\\:" else c for c in part)


def check_free(path: Path, digest: str, *, force: bool) -> bool:
    """Whether it has to be written: False where that content is already.

    Raises `NotWritten` where something else is.
    """
    with _telling(path):
        if not path.exists():
            return True
        if path.is_dir():
            raise NotWritten(f"{path} is a folder.", "Choose another folder with --to.")
        if digest == _digest(path):
            return False
    if not force:
        raise NotWritten(
            f"{path} is there already and is not the same.",
            "Choose another folder with --to, or overwrite it with --force.",
        )
    return True


def fetch(client: Client, file: StoredFile, path: Path) -> None:
    """Writes the file whole or not at all. Raises `NotFound`, `Damaged` and `NotWritten`."""
    with _new(path) as scratch, scratch.open("xb") as target:
        _receive(client, file, target)


def write_csv(client: Client, stored: Points, path: Path, *, force: bool) -> None:
    """A row a point, in the order in which they were logged. Raises as `fetch` does."""
    with TemporaryFile() as records, _new(path) as scratch:
        _receive(client, _described(client, "points of its series", stored.points), records)
        names = io.BytesIO()
        _receive(client, _described(client, "names of its series", stored.names), names)
        records.seek(0)
        pieces = iter(lambda: records.read(DOWNLOAD_BYTES), b"")
        with scratch.open("x", encoding="utf-8", errors="replace", newline="") as target:
            rows = csv.writer(target)
            rows.writerow(("series", "step", "value", "time"))
            rows.writerows(
                (series, step, value, _instant(at))
                for series, step, value, at in points(names.getvalue(), pieces)
            )
        check_free(path, _digest(scratch), force=force)


def _described(client: Client, name: str, digest: str) -> StoredFile:
    return StoredFile(name=name, digest=digest, size=client.blob_size(digest))


def _receive(client: Client, file: StoredFile, target: IO[bytes]) -> None:
    """Shows how far it is when it takes several pieces and somebody looks."""
    shown = printable(file.name)
    if file.size is None:
        raise NotFound("content", shown, "It was deleted after the job had stored it.")
    found = hashlib.sha256()
    large = file.size > DOWNLOAD_BYTES and sys.stderr.isatty()
    with (
        click.progressbar(length=file.size, label=shown, file=sys.stderr)
        if large
        else nullcontext() as bar
    ):
        for piece in client.blob_pieces(file.digest):
            found.update(piece)
            target.write(piece)
            if bar is not None:
                bar.update(len(piece))
    if found.hexdigest() != file.digest:
        raise Damaged(f"{shown!r} arrived damaged.", "Fetch it again.")


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """A file beside it that takes its place at the end. OSError becomes `NotWritten`."""
    scratch = path.parent / f".xmcloud-{random_id()}"
    with _telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield scratch
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise NotWritten(f"{path} cannot be written: {why}.", "Choose another with --to.") from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _instant(seconds: float) -> str:
    """Empty for what is no time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return ""
