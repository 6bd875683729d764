"""Blobs as files in a folder."""

from xmcloud.adapters.files.blobs import FileBlobs

__all__ = ["FileBlobs"]
