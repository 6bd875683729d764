"""What a run leaves behind before anybody has taken it. Standard library alone."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmcloud.runs.points import POINTS, Points, Series, glance

RESULTS_LIMIT = 16 * 1024
"""Bytes of a job's results as JSON; what is too much is left out of the glance, last first."""


def new_place() -> str:
    """Where a spool may be made: a name that nobody else has."""
    return str(Path(os.environ.get("TMPDIR", "/tmp"), f"xmcloud-run-{os.urandom(8).hex()}"))  # noqa: S108


class Spool:
    """A folder, made when it is first needed. Methods raise OSError."""

    def __init__(self, place: str) -> None:
        self._folder = Path(place)
        self._points: Points | None = None
        self._kept = 0

    def log(self, step: int | None, scalars: Mapping[str, Any]) -> None:
        """Raises struct.error for what is no number, besides."""
        if self._points is None:
            self._points = Points(self._made())
        self._points.log(step, scalars)

    def keep(self, content: bytes | Path) -> str:
        """A copy, so that the original may change; its path."""
        self._kept += 1
        copy = self._made() / f"kept-{self._kept}"
        if isinstance(content, bytes):
            copy.write_bytes(content)
        else:
            shutil.copyfile(content, copy)
        return str(copy)

    def _made(self) -> Path:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder


def series_in(place: str) -> dict[str, Series]:
    folder = Path(place)
    return glance(folder) if (folder / POINTS).exists() else {}


def fitting(results: Mapping[str, Any]) -> dict[str, Any]:
    """As much as a job's results hold: of what has many parts, the last are left out."""
    found = {name: dict(v) if isinstance(v, dict) else v for name, v in results.items()}
    while len(json.dumps(found)) > RESULTS_LIMIT:
        parts = [value for value in found.values() if isinstance(value, dict) and value]
        if not parts:
            return {}
        max(parts, key=lambda part: len(json.dumps(part))).popitem()
        found["cut"] = True
    return found


def remove(place: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
