"""Series that never grow beyond a limit: the older the record, the longer its interval."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Self

from xmcloud.core.models import Statistics

POINTS = 240
"""Of each series; that many are what `Statistics` holds."""


class Point(NamedTuple):
    """All that was measured within one interval."""

    samples: int
    total: float
    peak: float

    def and_(self, other: Self) -> "Point":
        return Point(
            self.samples + other.samples, self.total + other.total, max(self.peak, other.peak)
        )


class Recording:
    """Measurements by name, from the first on. Where nothing was measured is a gap."""

    def __init__(self, step_seconds: float) -> None:
        self._interval = step_seconds
        self._intervals = 1  # of them in one point
        self._start: datetime | None = None
        self._newest = 0
        self._series: dict[str, dict[int, Point]] = {}

    def add(self, now: datetime, measured: Mapping[str, float]) -> None:
        """What was measured at that instant; a clock that was set back counts as standing still."""
        start = self._start = self._start or now
        interval = round((now - start).total_seconds() / self._interval)
        while interval // self._intervals >= POINTS:
            self._double()
        self._newest = max(self._newest, interval // self._intervals)
        for name, value in measured.items():
            points = self._series.setdefault(name, {})
            point = Point(1, value, value)
            before = points.get(self._newest)
            points[self._newest] = before.and_(point) if before else point

    def _double(self) -> None:
        self._intervals *= 2
        self._newest //= 2
        for name, points in self._series.items():
            merged: dict[int, Point] = {}
            for place, point in points.items():
                before = merged.get(place // 2)
                merged[place // 2] = before.and_(point) if before else point
            self._series[name] = merged

    def statistics(self) -> Statistics | None:
        """The mean of each interval, of memory the most; None before anything was measured."""
        if self._start is None or not self._series:
            return None
        return Statistics(
            start=self._start,
            step_seconds=self._interval * self._intervals,
            series={name: self._values(name) for name in self._series},
        )

    def _values(self, name: str) -> tuple[float | None, ...]:
        points = self._series[name]
        found = (points.get(place) for place in range(self._newest + 1))
        return tuple(point and _shown(name, point) for point in found)


def _shown(name: str, point: Point) -> float:
    """Rounded, since no digit beyond says anything: memory ends jobs by its most."""
    value = point.peak if name.endswith("memory-bytes") else point.total / point.samples
    return round(value, 1)
