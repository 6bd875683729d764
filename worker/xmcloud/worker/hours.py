"""The hours of a week in which a worker takes jobs."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Never, Self

from xmcloud.worker.gate import Gate

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY, _WEEK = 24 * 60, 7 * 24 * 60
_LOOK_SECONDS = 60.0
"""The clock of a machine may be set, and summer begins and ends."""

_PART = re.compile(
    r"(?:(?P<from>[a-z]{3})(?:-(?P<to>[a-z]{3}))?)?\s*"
    r"(?:(?P<begin>\d{1,2}:\d{2})-(?P<end>\d{1,2}:\d{2}))?"
)


@dataclass(frozen=True, slots=True)
class Hours:
    """Stretches of minutes from Monday, 0:00 on; the end is not part of a stretch."""

    stretches: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """`mon-fri 20:00-08:00, sat, sun`: days, times of the machine's clock, or both.

        A time that ends before it begins ends on the next day. Raises ValueError.
        """
        return cls(tuple(s for part in text.lower().split(",") for s in _stretches(part.strip())))

    def contain(self, time: datetime) -> bool:
        minute = time.weekday() * _DAY + time.hour * 60 + time.minute
        return any(
            begin <= m < end for begin, end in self.stretches for m in (minute, minute + _WEEK)
        )


def _stretches(part: str) -> Iterator[tuple[int, int]]:
    found = _PART.fullmatch(part)
    if not part or found is None:
        raise ValueError(f"{part!r} is not like 'mon-fri 20:00-08:00' or 'sat'")
    first = _day(found["from"] or "mon")
    last = _day(found["to"] or found["from"] or "sun")
    begin, end = _minute(found["begin"] or "0:00"), _minute(found["end"] or "24:00")
    length = (end - begin) % _DAY or _DAY
    for day in range(first, first + (last - first) % 7 + 1):
        start = day % 7 * _DAY + begin
        yield start, start + length


def _day(name: str) -> int:
    if name not in _DAYS:
        raise ValueError(f"{name!r} is none of {', '.join(_DAYS)}")
    return _DAYS.index(name)


def _minute(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY:
        raise ValueError(f"{text!r} is no time of day")
    return hour * 60 + minute


async def keep_hours(hours: Hours, gate: Gate, now: Callable[[], datetime]) -> Never:
    """Closes the gate outside of the hours; what runs then goes on."""
    while True:
        time = now()
        gate.keep("outside its hours", closed=not hours.contain(time))
        left = timedelta(minutes=1) - timedelta(seconds=time.second, microseconds=time.microsecond)
        await asyncio.sleep(min(_LOOK_SECONDS, left.total_seconds()))
