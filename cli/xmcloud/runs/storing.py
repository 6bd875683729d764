"""Stores what a script left behind, and tells what its results hold of it."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.outputs import fitting, unicode
from xmcloud.runs.joined import EVERYWHERE
from xmcloud.xm_cloud.archives.uploads import BlobStore, upload
from xmcloud.xm_cloud.left_behind import left_behind


def stored(blobs: BlobStore, outputs: Path) -> tuple[dict[str, JsonValue], list[str]]:
    """Results of what the run left behind, and what could not be stored, for people."""
    digests = {}
    with TemporaryDirectory() as stage:
        left = left_behind(outputs, EVERYWHERE, Path(stage))
        for name, path in left.files.items():
            try:
                digests[name] = upload(blobs, name, path)
            except (InvalidInput, TooLarge) as error:
                left.notes.append(f"{name} is not stored: {error}")
    found = left.results | ({"blobs": digests} if digests else {})
    return unicode(found), left.notes


def cut(blobs: BlobStore, whole: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What a job's results hold; all of it is stored if that is less."""
    fits = fitting(whole)
    if fits == whole:
        return fits
    return fits | {"whole": upload(blobs, "The results", json.dumps(whole).encode())}
