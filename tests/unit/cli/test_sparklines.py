"""Statistics in a terminal: small bars, and numbers as people read them."""

import pytest

from tests.support.clock import START
from xmcloud.cli.sparklines import (
    BLOCKS,
    PLAIN,
    amount,
    bars_for,
    label,
    size,
    sparkline,
    statistics_columns,
    statistics_rows,
)
from xmcloud.cli.tables import plain_lines
from xmcloud.core.models import Statistics


def test_a_bar_is_as_high_as_its_share() -> None:
    assert sparkline([0, 50, 100, None, 13, 120], 100, BLOCKS) == "▁▅█ ▂█"
    assert sparkline([0, 50, 100], 100, PLAIN) == "_=#"
    assert sparkline([0, 0], 0, BLOCKS) == "▁▁"
    assert sparkline([], 100, BLOCKS) == ""


def test_a_long_series_becomes_narrow() -> None:
    values: list[float | None] = [0.0] * 240
    values[96:102] = [100.0, None, 50.0, None, 0.0, 50.0]
    values[120:126] = [None] * 6
    means = sparkline(values, 100, BLOCKS)
    assert means == "▁" * 16 + "▅" + "▁" * 3 + " " + "▁" * 19
    assert sparkline(values, 100, BLOCKS, max) == means.replace("▅", "█")


@pytest.mark.parametrize(
    ("encoding", "bars"),
    [("utf-8", BLOCKS), ("cp437", PLAIN), ("ascii", PLAIN), ("no such", PLAIN), (None, PLAIN)],
)
def test_a_terminal_gets_what_it_can_show(encoding: str | None, bars: str) -> None:
    assert bars_for(encoding) == bars


@pytest.mark.parametrize(
    ("name", "value", "labelled", "told"),
    [
        ("cpu-percent", 87.4, "CPU", "87 %"),
        ("cpu-core-percent", 250.0, "CPU", "2.50 cores"),
        ("memory-bytes", 12.3e9, "Memory", "12 GB"),
        ("gpu-10-memory-bytes", 1.2e9, "GPU 10 memory", "1.2 GB"),
        ("gpu-0-percent", 3.0, "GPU 0", "3 %"),
        ("disk-read-bytes-per-second", 34_500.0, "Disk read", "34 kB/s"),
        ("temperature", 71.5, "Temperature", "71.5"),
    ],
)
def test_a_name_tells_the_unit(name: str, value: float, labelled: str, told: str) -> None:
    assert (label(name), amount(name, value)) == (labelled, told)


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.9, "1.0 kB"),
        (9_960, "10 kB"),
        (5.64e6, "5.6 MB"),
        (999.7e6, "1.0 GB"),
        (2.5e12, "2.5 TB"),
    ],
)
def test_sizes_have_three_digits_at_most(count: float, told: str) -> None:
    assert size(count) == told


def test_statistics_as_a_table() -> None:
    statistics = Statistics(
        start=START,
        step_seconds=5.0,
        series={
            "network-in-bytes-per-second": (None, 5e3, 1e4),
            "gpu-10-percent": (0, 0, 100),
            "gpu-2-memory-bytes": (1e9, 1e9, 1e9),
            "gpu-2-percent": (None, None, None),
            "memory-bytes": (4e9, 4e9, 8e9),
            "cpu-core-percent": (None, 300, 150),
        },
    )
    rows = statistics_rows(statistics, BLOCKS, {"memory-bytes": 16e9})
    assert plain_lines(statistics_columns(statistics), rows) == [
        "MEASURED      OVER 15.0 S  NOW         MIN         MAX",
        "CPU            █▅          1.50 cores  1.50 cores  3.00 cores",
        "Memory        ▃▃▅          8.0 GB      4.0 GB      8.0 GB",
        "GPU 2 memory  ███          1.0 GB      1.0 GB      1.0 GB",
        "GPU 10        ▁▁█          100 %       0 %         100 %",
        "Network in     ▅█          10 kB/s     5.0 kB/s    10 kB/s",
    ]
