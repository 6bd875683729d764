"""How much of a working tree is carried along; what is too large is named."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from xmcloud.xm_cloud.archives.sizes import parse_size, shown

FILE_LIMIT = "XMCLOUD_FILE_LIMIT"
DEFAULT_FILE_LIMIT = 10 * 1000**2
TOTAL_LIMIT = 100 * 1000**2
"""Bytes of all changed and untracked files together."""


def file_limit(environ: Mapping[str, str]) -> int:
    """Bytes of one file; `XMCLOUD_FILE_LIMIT` may say others. Raises `InvalidInput`."""
    text = environ.get(FILE_LIMIT, "")
    return parse_size(FILE_LIMIT, text) if text else DEFAULT_FILE_LIMIT


def fitting(root: Path, paths: Sequence[str], limit: int) -> tuple[list[str], list[str]]:
    """The paths to be taken, those that are gone too; and those that are too large, with why."""
    sizes = {path: _size(root / path) for path in paths}
    total = sum(size for size in sizes.values() if size <= limit)
    left_out: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: -sizes[path]):
        if sizes[path] > limit:
            left_out[path] = f"{path} ({shown(sizes[path])})"
        elif total > TOTAL_LIMIT:
            total -= sizes[path]
            left_out[path] = f"{path} ({shown(sizes[path])}, all together are too large)"
    return [path for path in paths if path not in left_out], list(left_out.values())


def _size(path: Path) -> int:
    """Of a file; a link or what is gone has none."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
