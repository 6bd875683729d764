"""What clients and the control plane say about blobs that go up in parts."""

from typing import Annotated

from pydantic import Field

from xmcloud.core.base import Model
from xmcloud.core.names import Digest

PART_LIMIT = 16 * 1024 * 1024
"""Bytes of one part of a blob."""

PARTS_LIMIT = 2048
"""Parts of one blob."""


class BlobPart(Model):
    """A part of a blob that is being uploaded, by the digest of its own content."""

    digest: Digest
    size: int = Field(description="Bytes.")


class BlobParts(Model):
    """The parts that are there, in no particular order."""

    parts: list[BlobPart]


class CompleteBlob(Model):
    """Which parts make the blob, in their order; one may come several times."""

    parts: Annotated[tuple[Digest, ...], Field(min_length=1, max_length=PARTS_LIMIT)]


class StoredBlob(Model):
    """A blob that is there whole."""

    digest: Digest
    size: int = Field(description="Bytes.")
