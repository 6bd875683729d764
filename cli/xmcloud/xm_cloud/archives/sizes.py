"""How large an archive may be, and what makes it so large."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.errors import InvalidInput, TooLarge, XmcloudError

LIMIT = "XMCLOUD_ARCHIVE_LIMIT"
DEFAULT_LIMIT = 1024**3
WARNING_BYTES = 100 * 1000**2

_UNITS = {
    "": 1, "b": 1,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip
_NAMED = 3
"""So many of the largest are named."""

_MOST = 0.8
"""A folder with so much of its bytes in one child is passed over for the child."""


class ArchiveTooLarge(TooLarge):
    """The files of a folder make more than an archive may have."""

    def __init__(self, folder: Path, size: int, limit: int, sizes: Mapping[str, int]) -> None:
        XmcloudError.__init__(
            self,
            f"The archive of {folder} would have {shown(size)}; the limit is {shown(limit)}. "
            f"The largest in it: {largest(sizes)}.",
            "Name what the code does not need in .xmcloudignore and keep large data in a bucket, "
            f"or raise {LIMIT} (now {limit} bytes).",
        )


def archive_limit(environment: Mapping[str, str]) -> int:
    """Bytes; `XMCLOUD_ARCHIVE_LIMIT` may say others. Raises `InvalidInput`."""
    text = environment.get(LIMIT, "")
    return parse_size(LIMIT, text) if text else DEFAULT_LIMIT


def parse_size(name: str, text: str) -> int:
    """Bytes, which the setting `name` gives with or without a unit. Raises `InvalidInput`."""
    parsed = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text, re.ASCII)
    unit = _UNITS.get(parsed[2].lower()) if parsed else None
    if parsed is None or unit is None:
        raise InvalidInput(name, text, "a number of bytes, or one with a unit such as 2GiB")
    return int(float(parsed[1]) * unit) if "." in parsed[1] else int(parsed[1]) * unit


def shown(size: int) -> str:
    """In the decimal unit that leaves the fewest digits: 1.5 GB."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.3g} {unit}"
    return f"{size} bytes"


def largest(sizes: Mapping[str, int]) -> str:
    """The largest files and folders with their sizes, none inside another."""
    totals, in_one_child = _totals(sizes)
    found: list[str] = []
    for name in sorted(totals, key=lambda name: (-totals[name], name)):
        if len(found) == _NAMED or not totals[name]:
            break
        if in_one_child[name] < _MOST * totals[name] and not any(
            _nested(name, other) or _nested(other, name) for other in found
        ):
            found.append(name)
    return ", ".join(f"{name} ({shown(totals[name])})" for name in found)


def _totals(sizes: Mapping[str, int]) -> tuple[Counter[str], Counter[str]]:
    """Bytes of each file and folder, and those of its largest child."""
    totals: Counter[str] = Counter()
    for name, size in sizes.items():
        totals[name] += size
        for parent in _parents(name):
            totals[parent] += size
    largest_child: Counter[str] = Counter()
    for name, size in totals.items():
        for parent in _parents(name)[:1]:
            largest_child[parent] = max(largest_child[parent], size)
    return totals, largest_child


def _parents(name: str) -> list[str]:
    """The folders it is in, the nearest first; their names end with a slash."""
    parts = name.rstrip("/").split("/")[:-1]
    return [f"{'/'.join(parts[:count])}/" for count in range(len(parts), 0, -1)]


def _nested(inner: str, outer: str) -> bool:
    return outer.endswith("/") and inner.startswith(outer)
