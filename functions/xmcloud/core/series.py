"""Series of numbers: how a point is written down, and what is known at a glance.

Standard library alone. A record has 32 bytes: step, value, time, and last the number of its
series, which counts from 1, so that a record which was not written whole counts as none.
"""

import json
import math
import struct
from collections.abc import Iterable, Iterator
from typing import TypedDict

from xmcloud.core.outputs import parsed

RECORD = struct.Struct("<qddq")

POINTS, NAMES = "points", "names"
"""The files: records, and a line of JSON for each series, in the order of their numbers."""

Point = tuple[str, int, float, float]
"""Series, step, value and time."""


class Series(TypedDict):
    """What is known of one series at a glance. NaN and infinities are text."""

    last: float | str
    min: float | str
    max: float | str
    count: int


class _Seen:
    __slots__ = ("count", "high", "last", "low", "number")

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self.last = self.low = self.high = math.nan

    def add(self, value: float) -> None:
        self.last, self.count = value, self.count + 1
        if value < self.low or self.low != self.low:
            self.low = value
        if value > self.high or self.high != self.high:
            self.high = value


class Table:
    """Numbers series in the order in which they begin, and knows each at a glance."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def record(self, point: Point) -> bytes:
        """Counts the point; its record."""
        name, step, value, at = point
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(len(self._seen) + 1)
        seen.add(value)
        return RECORD.pack(step, value, at, seen.number)

    @property
    def names(self) -> bytes:
        """Of the series, as their file has them."""
        return b"".join(json.dumps(name).encode() + b"\n" for name in self._seen)

    def glance(self) -> dict[str, Series]:
        return {
            name: Series(
                last=_json(seen.last), min=_json(seen.low), max=_json(seen.high), count=seen.count
            )
            for name, seen in self._seen.items()
        }


def points(names: bytes, pieces: Iterable[bytes]) -> Iterator[Point]:
    """In the order in which they were logged; pieces end between records. Raises ValueError."""
    known = [str(parsed(line)) for line in names.splitlines()]
    for piece in pieces:
        whole = memoryview(piece)[: len(piece) - len(piece) % RECORD.size]
        for step, value, at, number in RECORD.iter_unpack(whole):
            if 0 < number <= len(known):
                yield known[number - 1], step, value, at


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
