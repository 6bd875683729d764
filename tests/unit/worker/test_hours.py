"""The hours of a week in which a worker takes jobs."""

import asyncio
from datetime import datetime

import pytest

from xmcloud.worker.gate import Gate
from xmcloud.worker.hours import Hours, keep_hours

MONDAY = 2  # March 2026 begins with a Sunday


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, MONDAY + day, hour, minute)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("20:00-08:00", [at(0, 20), at(3, 3), at(6, 23), at(0, 7, 59)], [at(0, 8), at(5, 19, 59)]),
        ("mon-fri 20:00-08:00", [at(4, 23), at(5, 7)], [at(5, 8), at(5, 20), at(0, 7)]),
        ("sat, sun", [at(5, 0), at(6, 23, 59)], [at(4, 23, 59), at(0, 0)]),
        ("sun 22:00-02:00", [at(6, 22), at(0, 1, 59)], [at(0, 2), at(6, 21, 59), at(1, 1)]),
        ("fri-mon", [at(4, 0), at(5, 1), at(0, 23)], [at(1, 0), at(3, 23)]),
        ("SAT 9:00-24:00", [at(5, 9), at(5, 23, 59)], [at(5, 8, 59), at(6, 0)]),
        ("tue 00:00-00:00", [at(1, 0), at(1, 23)], [at(0, 23), at(2, 0)]),
    ],
)
def test_hours(text: str, inside: list[datetime], outside: list[datetime]) -> None:
    hours = Hours.parse(text)
    assert [time for time in inside if not hours.contain(time)] == []
    assert [time for time in outside if hours.contain(time)] == []


@pytest.mark.parametrize("text", ["", "mon-", "nob 1:00-2:00", "25:00-3:00", "1:60-2:00", "mon,"])
def test_what_is_no_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        Hours.parse(text)


async def test_the_gate_follows_the_clock() -> None:
    gate, seen = Gate(), []
    times = [at(0, 7, 59), at(0, 8), at(0, 9)]

    def now() -> datetime:
        seen.append(gate.is_open)
        if not times:
            raise asyncio.CancelledError
        return times.pop(0).replace(second=59, microsecond=999_000)

    with pytest.raises(asyncio.CancelledError):
        await keep_hours(Hours.parse("8:00-9:00"), gate, now)
    assert seen == [True, False, True, False]


async def test_each_reason_keeps_the_gate_closed() -> None:
    gate = Gate()
    gate.keep("drained", closed=True)
    gate.keep("outside its hours", closed=True)
    gate.keep("drained", closed=False)
    assert not gate.is_open
    gate.keep("outside its hours", closed=False)
    assert gate.is_open
    await gate.wait()
