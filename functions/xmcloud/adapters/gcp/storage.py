"""Blobs in a Cloud Storage bucket."""

import asyncio
import os
import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from google.api_core import exceptions
from google.cloud.storage import Bucket, Client
from google.cloud.storage.retry import DEFAULT_RETRY

from xmcloud.adapters.gcp.failures import translated
from xmcloud.core.errors import InvalidInput, NotFound

_PART = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+\Z")
_PREFIX_END = re.compile(r"[A-Za-z0-9._-]*\Z")
_DELETES_AT_ONCE = 8
_COMPOSED_AT_ONCE = 32
"""Cloud Storage's limit."""

_Sizes = list[tuple[str, int]]
_Keys = list[str]


class GcsBlobs:
    """The `Blobs` port on a bucket; whole uploads and downloads are checked against CRC32C.

    On the emulator the bucket is made when it is first used; elsewhere it must exist.
    """

    def __init__(self, bucket: str, project: str | None = None, *, deadline: float = 30.0) -> None:
        self._bucket_name = bucket
        self._project = project
        self._options: dict[str, Any] = {"retry": DEFAULT_RETRY.with_timeout(deadline)}
        self._opening = threading.Lock()
        self._opened: Bucket | None = None

    async def put(self, key: str, data: bytes) -> None:
        """Raises `InvalidInput`, `Unavailable`, and `NotFound` if the bucket is missing."""
        _check_key(key)
        await asyncio.to_thread(self._put, key, data)

    async def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Raises `InvalidInput`, `NotFound`, `Unavailable`."""
        _check_key(key)
        return await asyncio.to_thread(self._get, key, start, end)

    async def compose(self, key: str, parts: Sequence[str]) -> None:
        """Raises `InvalidInput`, `NotFound`, `Unavailable`.

        What is composed of more than 32 parts is first composed to fewer, larger ones; if the
        process is killed, these stay under the prefix that the first part has.
        """
        for each in (key, *parts):
            _check_key(each)
        await asyncio.to_thread(self._compose, key, list(parts))

    async def list(
        self, prefix: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, int]]:
        """Raises `InvalidInput`, `Unavailable`, and `NotFound` if the bucket is missing."""
        _check_prefix(prefix)
        return await asyncio.to_thread(self._list, prefix, after, limit)

    async def delete(self, prefix: str) -> None:
        """Raises `InvalidInput`, `Unavailable`, and `NotFound` if the bucket is missing."""
        _check_prefix(prefix)
        await asyncio.to_thread(self._delete, prefix)

    async def close(self) -> None:
        """Releases connections; the blobs are not used afterwards."""
        if self._opened is not None:
            self._opened.client.close()

    def _put(self, key: str, data: bytes) -> None:
        with self._failures("bucket", self._bucket_name):
            self._bucket().blob(key).upload_from_string(
                data, "application/octet-stream", checksum="crc32c", **self._options
            )

    def _get(self, key: str, start: int, end: int | None) -> bytes:
        with self._failures("blob", key):
            blob = self._bucket().blob(key)
            if end is not None and end <= start:
                blob.reload(**self._options)
                return b""
            try:
                data: bytes = blob.download_as_bytes(
                    start=start or None,
                    end=None if end is None else end - 1,
                    checksum="crc32c",
                    **self._options,
                )
            except exceptions.RequestRangeNotSatisfiable:
                return b""
            return data

    def _compose(self, key: str, parts: _Keys) -> None:
        there = {name for name, _ in self._list(os.path.commonprefix(parts))}  # noqa: RUF071
        for part in parts:
            if part not in there:  # the emulator would answer as if it were broken
                raise NotFound("blob", part)
        temporary = f"{parts[0]}~{uuid.uuid4().hex}"
        names = (f"{temporary}-{number}" for number in count())
        made: _Keys = []
        try:
            while len(parts) > _COMPOSED_AT_ONCE:
                groups = _groups(parts)
                parts = [next(names) for _ in groups]
                for name, group in zip(parts, groups, strict=True):
                    made.append(name)
                    self._compose_some(name, group)
            self._compose_some(key, parts)
        finally:
            for name in made:
                self._delete_one(name)

    def _compose_some(self, key: str, parts: _Keys) -> None:
        bucket = self._bucket()
        composed = bucket.blob(key)
        composed.content_type = "application/octet-stream"
        with self._failures("blob", " or ".join(parts)):
            composed.compose([bucket.blob(part) for part in parts], **self._options)

    def _list(self, prefix: str, after: str = "", limit: int | None = None) -> _Sizes:
        with self._failures("bucket", self._bucket_name):
            blobs = self._bucket().list_blobs(
                prefix=prefix,
                start_offset=after or None,
                max_results=None if limit is None else limit + 1,  # `after` itself comes too
                fields="items(name,size),nextPageToken",
                **self._options,
            )
            return sorted((blob.name, blob.size) for blob in blobs if blob.name > after)[:limit]

    def _delete(self, prefix: str) -> None:
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            for _ in pool.map(self._delete_one, [key for key, _ in self._list(prefix)]):
                pass

    def _delete_one(self, key: str) -> None:
        with self._failures("blob", key), suppress(exceptions.NotFound):
            self._bucket().blob(key).delete(**self._options)

    def _bucket(self) -> Bucket:
        with self._opening:
            if self._opened is None:
                client = Client(project=self._project)
                bucket = client.bucket(self._bucket_name)
                if os.environ.get("STORAGE_EMULATOR_HOST"):
                    with suppress(exceptions.Conflict):
                        client.create_bucket(bucket, **self._options)
                self._opened = bucket
            return self._opened

    @contextmanager
    def _failures(self, kind: str, id: str) -> Iterator[None]:
        try:
            with translated("Cloud Storage"):
                yield
        except exceptions.NotFound as error:
            raise NotFound(kind, id) from error


def _groups(parts: _Keys) -> list[_Keys]:
    starts = range(0, len(parts), _COMPOSED_AT_ONCE)
    return [parts[start : start + _COMPOSED_AT_ONCE] for start in starts]


def _check_key(key: str) -> None:
    if not all(_PART.match(part) for part in key.split("/")):
        raise InvalidInput("key", key, "names of A-Z a-z 0-9 . _ - with / between them")


def _check_prefix(prefix: str) -> None:
    *parts, last = prefix.split("/")
    if not (all(_PART.match(part) for part in parts) and _PREFIX_END.match(last)):
        raise InvalidInput("prefix", prefix, "the beginning of a key")
