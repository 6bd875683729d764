"""The calls of an export and an import."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from xmcloud.core.errors import NotFound
from xmcloud.core.transfer import (
    Documents,
    Exportable,
    Import,
    ImportDocuments,
    ImportedDocuments,
    KeyedBlob,
    KeyedBlobs,
    NewImport,
    StoredDocument,
)
from xmcloud.xm_cloud.client import Client

Step = TypeVar("Step", Import, ImportedDocuments)


class TransferClient(Client):
    """A client for an admin, who may read and write everything."""

    def exportable(self) -> Exportable:
        return self._get(Exportable, "/v1/export")

    def document_pages(self, collection: str) -> Iterator[list[StoredDocument]]:
        """Those that are not empty."""
        cursor: str | None = None
        while True:
            query = {"collection": collection, "cursor": cursor}
            page = self._get(Documents, "/v1/export/documents", query)
            if page.documents:
                yield page.documents
            cursor = page.cursor
            if cursor is None:
                return

    def keyed_blobs(self) -> Iterator[KeyedBlob]:
        """All blobs, in order of key."""
        cursor: str | None = None
        while True:
            page = self._get(KeyedBlobs, "/v1/export/blobs", {"cursor": cursor})
            yield from page.blobs
            cursor = page.cursor
            if cursor is None:
                return

    def blob_piece(self, key: str, start: int = 0) -> bytes | None:
        """What one answer holds of the bytes from `start` on; None of a blob that is gone."""
        response = self._request("GET", "/v1/export/blob", query={"key": key, "start": start})
        try:
            self._raise_problem(response)
        except NotFound:
            return None
        return response.content

    def begin_import(self, archive: str, new: NewImport) -> Import:
        """Raises `NotEmpty`."""
        return self._import(Import, archive, "", new.model_dump_json())

    def import_documents(
        self, archive: str, collection: str, documents: Sequence[StoredDocument]
    ) -> ImportedDocuments:
        body = ImportDocuments(collection=collection, documents=tuple(documents))
        return self._import(ImportedDocuments, archive, "/documents", body.model_dump_json())

    def import_blob(self, archive: str, key: str, offset: int, size: int, data: bytes) -> None:
        response = self._request(
            "PUT",
            f"/v1/imports/{archive}/blob",
            query={"key": key, "offset": offset, "size": size},
            body=data,
            headers={"Content-Type": "application/octet-stream"},
        )
        self._raise_problem(response)

    def finish_import(self, archive: str) -> Import:
        return self._import(Import, archive, "/finish")

    def _import(self, model: type[Step], archive: str, path: str, body: str = "{}") -> Step:
        """Each step may be repeated, as its key tells."""
        return self._answer(
            model,
            "POST",
            f"/v1/imports/{archive}{path}",
            body=body.encode(),
            headers={"Idempotency-Key": archive},
        )
