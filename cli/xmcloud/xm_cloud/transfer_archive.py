"""The file of an export: a tar of documents and blobs, with the SHA-256 of each member.

`documents/COLLECTION/NNNNNN.jsonl` and `blobs/KEY`, then `manifest.json` and, as the last one,
`SHA256SUMS`, which `sha256sum -c` reads too. Its own SHA-256 is the name of the archive.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from tempfile import TemporaryFile
from typing import IO

from pydantic import ValidationError

from xmcloud.core.errors import XmcloudError
from xmcloud.core.migrations import LATEST
from xmcloud.core.transfer import (
    Manifest,
    StoredDocument,
    migrated,
    migrations_since,
    parsed,
    transferred,
)

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
BLOBS, DOCUMENTS = "blobs/", "documents/"
_READ_BYTES = 1024 * 1024
Reached = Callable[[int], None]
"""Is told the bytes of the file that are behind."""


class DamagedArchive(XmcloudError):
    """A file is not what an export wrote."""

    slug, title, status = "damaged-archive", "Damaged archive", 422

    def __init__(self, detail: str) -> None:
        super().__init__(f"{detail} Nothing was imported.", "Use another copy, or export again.")


class UnknownFormat(XmcloudError):
    """An export of a version of xmcloud that this one does not know."""

    slug, title, status = "unknown-format", "Unknown format", 422


class ArchiveWriter:
    """Writes members one after the other; memory holds none of them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._sums = TemporaryFile()  # noqa: SIM115

    def add(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """The pieces have `size` bytes together."""
        member = tarfile.TarInfo(name)
        member.size, member.mode = size, 0o600
        source = _Pieces(pieces)
        self._tar.addfile(member, source)
        self._tar.members.clear()  # type: ignore[attr-defined]
        self._sums.write(_line(source.digest, name))

    def finish(self, manifest: str) -> None:
        """The JSON of a `Manifest`."""
        text = manifest.encode()
        self.add(MANIFEST, len(text), [text])
        size = self._sums.tell()
        self._sums.seek(0)
        self.add(SUMS, size, iter(lambda: self._sums.read(_READ_BYTES), b""))
        self._tar.close()

    def close(self) -> None:
        self._sums.close()


class _Pieces(io.RawIOBase):
    """Bytes in pieces as the file that `tarfile` copies, and their digest."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece, self._at = b"", 0
        self._found = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._found.hexdigest()

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            if self._at == len(self._piece):
                self._piece, self._at = next(self._pieces, b""), 0
            part = self._piece[self._at : self._at + size]
            if not part:
                break
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        data = b"".join(parts)
        self._found.update(data)
        return data


@dataclass(frozen=True, slots=True)
class Extent:
    """Where something is in the file."""

    start: int
    size: int


@dataclass(slots=True)
class Archive:
    """A file that is whole, and where its documents are; `name` is the digest of its checksums."""

    name: str
    manifest: Manifest
    pages: dict[str, list[Extent]] = field(default_factory=dict)


def check(file: IO[bytes], reached: Reached) -> Archive:
    """Reads all of it. Raises `DamagedArchive`, `UnknownFormat`, and `InvalidInput` or `NotFound`
    for a document that this version cannot have."""
    with TemporaryFile() as sums, damage_told():
        archive = _Check(file, sums, reached).archive()
        for name, pages in archive.pages.items():
            collection = transferred(name)
            since = migrations_since(archive.manifest.schema_version, name)
            for document in chain.from_iterable(documents(file, page) for page in pages):
                newest = document
                for migration in since:
                    newest = migrated(migration, newest, None)
                parsed(collection, newest)
    return archive


@contextmanager
def damage_told() -> Iterator[None]:
    """Raises `DamagedArchive` for what reading a tar raises that is none."""
    try:
        yield
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise DamagedArchive(f"It is no export, or it is damaged: {error}.") from None


class _Check:
    def __init__(self, file: IO[bytes], sums: IO[bytes], reached: Reached) -> None:
        self._file, self._sums, self._reached = file, sums, reached
        self._last = ""
        self._manifest: Manifest | None = None
        self._pages: dict[str, list[Extent]] = {}

    def archive(self) -> Archive:
        for member, content in members(self._file):
            if member.name == SUMS:
                if self._manifest is None:
                    raise DamagedArchive(f"There is no {MANIFEST}.")
                return Archive(self._compared(content), self._manifest, self._pages)
            self._look_at(member, content)
            self._last = member.name
        raise DamagedArchive(f"It is not whole: it ends after {self._last or 'nothing'}.")

    def _look_at(self, member: tarfile.TarInfo, content: IO[bytes]) -> None:
        found = hashlib.sha256()
        kept = bytearray()
        wanted = not member.name.startswith(BLOBS)
        while data := content.read(_READ_BYTES):
            found.update(data)
            self._reached(self._file.tell())
            if wanted:
                kept += data
        self._sums.write(_line(found.hexdigest(), member.name))
        if member.name == MANIFEST:
            self._manifest = _manifest(bytes(kept))
        elif member.name.startswith(DOCUMENTS):
            extent = Extent(member.offset_data, member.size)
            self._pages.setdefault(member.name.split("/")[1], []).append(extent)

    def _compared(self, stored: IO[bytes]) -> str:
        """The digest of the checksums, which are those of what was read."""
        text = hashlib.sha256()
        self._sums.seek(0)
        for line in self._sums:
            if stored.readline() != line:
                name = line.decode().rstrip().partition("  ")[2]
                raise DamagedArchive(f"{name} is not what was exported.")
            text.update(line)
        if stored.read(1):
            raise DamagedArchive("It is not whole: some of it was taken out.")
        return text.hexdigest()


def _manifest(text: bytes) -> Manifest:
    try:
        told = json.loads(text)
        if told["format"] != 1:
            raise UnknownFormat(
                f"The archive has format {told['format']}, written by xmcloud {told['version']}.",
                "This xmcloud reads format 1: install that version or a newer one.",
            )
        manifest = Manifest.model_validate(told)
    except (ValidationError, ValueError, TypeError, KeyError):
        raise DamagedArchive(f"{MANIFEST} is not what was exported.") from None
    if manifest.schema_version > LATEST:
        raise UnknownFormat(
            f"The archive has documents of schema {manifest.schema_version}, written by xmcloud "
            f"{manifest.version}.",
            f"This xmcloud reads schemas up to {LATEST}: install that version or a newer one.",
        )
    return manifest


def members(file: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Each with its content, to be read before the next."""
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]
            content = tar.extractfile(member) if member.isreg() else None
            if content is None:
                raise DamagedArchive(f"{member.name!r} is no part of an export.")
            yield member, content


def documents(file: IO[bytes], extent: Extent) -> list[StoredDocument]:
    """Those of a page."""
    file.seek(extent.start)
    lines = file.read(extent.size).split(b"\n")
    return [StoredDocument.model_validate_json(line) for line in lines if line]


def _line(digest: str, name: str) -> bytes:
    return f"{digest}  {name}\n".encode()
