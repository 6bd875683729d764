"""Series of numbers in a file that outlives the process. Standard library alone.

The file is mapped into memory: what was logged is in the page cache when `log` returns, and a
process that is killed loses nothing.
"""

import itertools
import json
import mmap
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmcloud.core.series import NAMES, POINTS
from xmcloud.core.series import RECORD as _RECORD

_BITS = 15
_CHUNK = _RECORD.size << _BITS
_MASK = (1 << _BITS) - 1


class Points:
    """Appends to two files of a folder; any thread may log."""

    def __init__(self, folder: Path) -> None:
        self._points = os.open(folder / POINTS, os.O_RDWR | os.O_CREAT, 0o644)
        self._names = os.open(folder / NAMES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._ids: dict[str, int] = {}
        self._maps: list[mmap.mmap] = []
        self._slots, self._steps = itertools.count(), itertools.count()
        self._growing = threading.Lock()

    def log(self, step: int | None, scalars: Mapping[str, Any]) -> None:
        """Raises OSError when the disk is full, and struct.error for what is no number."""
        now = time.time()
        if step is None:
            step = next(self._steps)
        for name, value in scalars.items():
            number = self._ids.get(name) or self._named(name)
            slot = next(self._slots)
            try:
                chunk = self._maps[slot >> _BITS]
            except IndexError:
                chunk = self._grown(slot >> _BITS)
            _RECORD.pack_into(chunk, (slot & _MASK) * _RECORD.size, step, value, now, number)

    def _named(self, name: str) -> int:
        with self._growing:
            if name not in self._ids:
                os.write(self._names, json.dumps(name).encode() + b"\n")
                self._ids[name] = len(self._ids) + 1
            return self._ids[name]

    def _grown(self, wanted: int) -> mmap.mmap:
        with self._growing:
            while len(self._maps) <= wanted:
                start = len(self._maps) * _CHUNK
                # Writing to a map of a full disk would kill the process; this is refused instead.
                _zeros(self._points, start)
                self._maps.append(mmap.mmap(self._points, _CHUNK, offset=start))
            return self._maps[wanted]


def _zeros(file: int, start: int) -> None:
    done = 0
    while done < _CHUNK:
        done += os.pwrite(file, bytes(_CHUNK - done), start + done)
