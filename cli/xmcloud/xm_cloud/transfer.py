"""Everything of a control plane into a file, and from a file into an empty control plane."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

from xmcloud.core.errors import Unavailable, XmcloudError
from xmcloud.core.transfer import TRANSFERRED, Import, KeyedBlob, Manifest, NewImport
from xmcloud.xm_cloud.transfer_archive import (
    BLOBS,
    DOCUMENTS,
    Archive,
    ArchiveWriter,
    check,
    damage_told,
    documents,
    members,
)
from xmcloud.xm_cloud.transfer_client import TransferClient

PIECE_BYTES = 8 * 1024 * 1024
"""What one request brings of a blob, or takes."""

_AT_ONCE = 8
_AHEAD_BYTES = 4 * PIECE_BYTES
_AHEAD = 64

T = TypeVar("T")
R = TypeVar("R")

Report = Callable[[str, int, int | None], None]
"""Is told what is being done, the bytes that are done, and all of them if that is known."""


class NotWritten(XmcloudError):
    """The file of an export cannot be written."""

    slug, title, status = "not-written", "Not written", 409


class NotRead(XmcloudError):
    """The file of an import cannot be read."""

    slug, title, status = "not-read", "Not read", 422


def export_to(client: TransferClient, path: Path, report: Report, *, force: bool) -> Manifest:
    """Writes the file whole or not at all; nobody else can read it. Raises `NotWritten`."""
    if path.exists() and not force:
        raise NotWritten(
            f"{path} is there already.", "Name another file, or overwrite it with --force."
        )
    with _new(path) as file:
        writer = ArchiveWriter(file)
        try:
            return _Export(client, writer, file, report).run()
        finally:
            writer.close()


@contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """PATH.partial, which becomes the file at the end."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        try:
            with open(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise NotWritten(f"{path} cannot be written: {why}.", "Name another file.") from None


class _Export:
    def __init__(
        self, client: TransferClient, writer: ArchiveWriter, file: IO[bytes], report: Report
    ) -> None:
        self._client, self._writer, self._file, self._report = client, writer, file, report
        self._blobs = self._blob_bytes = 0

    def run(self) -> Manifest:
        told = self._client.exportable()
        counts = {name: self._documents(name) for name in told.collections}
        wanted = ((blob, min(blob.size, PIECE_BYTES)) for blob in self._client.keyed_blobs())
        with _side_by_side(self._first_piece, wanted) as pieces:
            for blob, piece in pieces:
                if piece is not None:
                    self._blob(blob, piece)
        manifest = Manifest(
            version=told.version,
            schema_version=told.schema_version,
            made_at=datetime.now(UTC),
            documents=counts,
            blobs=self._blobs,
            blob_bytes=self._blob_bytes,
        )
        self._writer.finish(manifest.model_dump_json(indent=2))
        return manifest

    def _documents(self, name: str) -> int:
        count = 0
        for number, page in enumerate(self._client.document_pages(name), 1):
            text = "".join(f"{document.model_dump_json()}\n" for document in page).encode()
            self._add(f"{DOCUMENTS}{name}/{number:06}.jsonl", len(text), [text], name)
            count += len(page)
        return count

    def _first_piece(self, blob: KeyedBlob) -> tuple[KeyedBlob, bytes | None]:
        return blob, self._client.blob_piece(blob.key)

    def _blob(self, blob: KeyedBlob, first: bytes) -> None:
        """A small one may have changed since it was listed: then it is as it was read."""
        large = blob.size > PIECE_BYTES
        pieces = self._pieces(blob, first) if large else [first]
        size = blob.size if large else len(first)
        self._add(f"{BLOBS}{blob.key}", size, pieces, "blobs")
        self._blobs += 1
        self._blob_bytes += size

    def _pieces(self, blob: KeyedBlob, piece: bytes | None) -> Iterator[bytes]:
        start = 0
        while piece:
            start += len(piece)
            yield piece
            piece = self._client.blob_piece(blob.key, start) if start < blob.size else None
        if start != blob.size:
            raise Unavailable(f"Blob {blob.key} changed while it was read.", "Export again.")

    def _add(self, name: str, size: int, pieces: Iterable[bytes], what: str) -> None:
        self._writer.add(name, size, pieces)
        self._report(what, self._file.tell(), None)


def import_from(client: TransferClient, path: Path, report: Report) -> tuple[Archive, Import]:
    """Checks the whole file, then sends it; goes on where an earlier import of it was cut short.

    Raises `DamagedArchive`, `UnknownFormat`, `NotRead` and `NotEmpty`, and `InvalidInput` for a
    document that this version cannot have; then nothing was imported.
    """
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        archive = check(file, lambda done: report("checking", done, size))
        told = archive.manifest
        new = NewImport(version=told.version, schema_version=told.schema_version)
        begun = client.begin_import(archive.name, new)
        if begun.finished_at is not None:
            return archive, begun
        with damage_told():
            _send_blobs(client, archive, file, begun, lambda done: report("blobs", done, size))
        for collection in TRANSFERRED:
            for page in archive.pages.get(collection.name, ()):
                client.import_documents(archive.name, collection.name, documents(file, page))
                report(collection.name, page.start + page.size, size)
        return archive, client.finish_import(archive.name)


def _send_blobs(
    client: TransferClient,
    archive: Archive,
    file: IO[bytes],
    begun: Import,
    reached: Callable[[int], None],
) -> None:
    there = _There(client.keyed_blobs() if begun.resumed else iter(()))

    def small() -> Iterator[tuple[tuple[str, bytes], int]]:
        for member, content in members(file):
            key = member.name.removeprefix(BLOBS)
            if not member.name.startswith(BLOBS) or there.has(key, member.size):
                continue
            if member.size <= PIECE_BYTES:
                yield (key, content.read()), member.size
                continue
            for offset in range(0, member.size, PIECE_BYTES):
                piece = content.read(PIECE_BYTES)
                client.import_blob(archive.name, key, offset, member.size, piece)
                reached(file.tell())

    def send(blob: tuple[str, bytes]) -> None:
        key, data = blob
        client.import_blob(archive.name, key, 0, len(data), data)

    with _side_by_side(send, small()) as sent:
        for _ in sent:
            reached(file.tell())


class _There:
    """What was sent before, asked in order of key."""

    def __init__(self, blobs: Iterator[KeyedBlob]) -> None:
        self._blobs = blobs
        self._next = next(blobs, None)

    def has(self, key: str, size: int) -> bool:
        while self._next is not None and self._next.key < key:
            self._next = next(self._blobs, None)
        return self._next is not None and (self._next.key, self._next.size) == (key, size)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        why = error.strerror or str(error)
        raise NotRead(f"{path} cannot be read: {why}.", "Name the file of an export.") from None


@contextmanager
def _side_by_side(work: Callable[[T], R], items: Iterable[tuple[T, int]]) -> Iterator[Iterator[R]]:
    """The results in order; memory holds so many, and so many bytes, of them at a time."""
    pool = ThreadPoolExecutor(_AT_ONCE)

    def results() -> Iterator[R]:
        waiting: deque[tuple[Future[R], int]] = deque()
        held = 0
        for item, size in items:
            while waiting and (len(waiting) >= _AHEAD or held + size > _AHEAD_BYTES):
                done, freed = waiting.popleft()
                held -= freed
                yield done.result()
            waiting.append((pool.submit(work, item), size))
            held += size
        for done, _ in waiting:
            yield done.result()

    try:
        yield results()
    finally:
        pool.shutdown(cancel_futures=True)
