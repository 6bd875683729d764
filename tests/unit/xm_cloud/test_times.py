"""Instants, spans and sizes as people say them."""

from datetime import UTC, datetime, timedelta

import pytest

from xmcloud.xm_cloud.times import age, duration, memory

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "0.0 s"),
        (0.94, "0.9 s"),
        (59.9, "59.9 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (7_830, "2 h 10 min"),
        (86_400, "1 d 00 h"),
        (4 * 86_400 + 6 * 3600, "4 d 06 h"),
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-60, "just now"),
        (4, "just now"),
        (5, "5 s ago"),
        (60, "1 min ago"),
        (3600 * 5, "5 h ago"),
        (86_400 * 400, "400 d ago"),
    ],
)
def test_age(seconds: float, shown: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_memory() -> None:
    assert (memory(87_400_000), memory(1_240_000_000)) == ("87 MB", "1.2 GB")
