"""Series of numbers in a file that outlives the process. Standard library alone.

A record has 32 bytes: step, value, time, and last the number of its series, so that one which was
not written whole counts as none. The file is mapped into memory: what was logged is in the page
cache when `log` returns, and a process that is killed loses nothing.
"""

import itertools
import json
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

_RECORD = struct.Struct("<qddq")
_BITS = 15
_CHUNK = _RECORD.size << _BITS
_MASK = (1 << _BITS) - 1

POINTS, NAMES = "points", "names"


class Series(TypedDict):
    """What is known of one series at a glance. NaN and infinities are text."""

    last: float | str
    min: float | str
    max: float | str
    count: int


class Points:
    """Appends to two files of a folder; any thread may log."""

    def __init__(self, folder: Path) -> None:
        self._points = os.open(folder / POINTS, os.O_RDWR | os.O_CREAT, 0o600)
        self._names = os.open(folder / NAMES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
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


def records(folder: Path) -> Iterator[tuple[str, int, float, float]]:
    """Series, step, value and time of each point, in the order in which they were logged."""
    names = [json.loads(line) for line in (folder / NAMES).read_bytes().splitlines()]
    with (folder / POINTS).open("rb") as file:
        while chunk := file.read(_CHUNK):
            for step, value, at, number in _RECORD.iter_unpack(chunk):
                if number:
                    yield names[number - 1], step, value, at


def glance(folder: Path) -> dict[str, Series]:
    """Of each series, in the order in which they began."""
    found: dict[str, list[float]] = {}
    for name, _, value, _ in records(folder):
        if (seen := found.get(name)) is None:
            found[name] = [value, value, value, 1]
        else:
            seen[0] = value
            seen[1], seen[2] = _lower(seen[1], value), _higher(seen[2], value)
            seen[3] += 1
    return {
        name: Series(last=_json(last), min=_json(low), max=_json(high), count=int(count))
        for name, (last, low, high, count) in found.items()
    }


def _lower(seen: float, value: float) -> float:
    return value if value < seen or math.isnan(seen) else seen


def _higher(seen: float, value: float) -> float:
    return value if value > seen or math.isnan(seen) else seen


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
