"""Statistics as small bars in a line of text, with numbers as people read them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from xmcloud.cli.tables import Cell, Span
from xmcloud.xm_cloud.times import duration

if TYPE_CHECKING:
    from xmcloud.core.models import Statistics

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-:=+*#"
WIDTH = 40

Together = Callable[[Sequence[float]], float]

_ORDER = ("CPU", "Memory", "GPU", "Disk", "Network")
_WORDS = {"cpu": "CPU", "gpu": "GPU"}


def bars_for(encoding: str | None) -> str:
    """Eight heights that a terminal of this encoding can show."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def sparkline(
    values: Sequence[float | None],
    top: float,
    bars: str,
    together: Together = fmean,
    width: int = WIDTH,
) -> str:
    """The height of each is its share of `top`; where nothing was measured is a blank.

    `together` makes one of neighbours where there are more than `width`.
    """
    if len(values) > width:
        values = _fewer(values, together, width)
    return "".join(" " if value is None else _bar(value, top, bars) for value in values)


def _fewer(values: Sequence[float | None], together: Together, width: int) -> list[float | None]:
    edges = [len(values) * place // width for place in range(width + 1)]
    parts = ([v for v in values[a:b] if v is not None] for a, b in pairwise(edges))
    return [together(part) if part else None for part in parts]


def _bar(value: float, top: float, bars: str) -> str:
    share = value / top if top > 0 else 0.0
    return bars[min(len(bars) - 1, max(0, int(share * len(bars))))]


def statistics_columns(statistics: "Statistics") -> tuple[str, ...]:
    points = max((len(values) for values in statistics.series.values()), default=0)
    return ("measured", f"over {duration(points * statistics.step_seconds)}", "now", "min", "max")


def statistics_rows(
    statistics: "Statistics", bars: str, tops: Mapping[str, float]
) -> list[list[Cell]]:
    """A row for each series in which anything was measured; `tops` is the most of some."""
    rows: list[list[Cell]] = []
    for name in sorted(statistics.series, key=_place):
        values = statistics.series[name]
        known = [value for value in values if value is not None]
        if known:
            together = max if name.endswith("memory-bytes") else fmean
            line = sparkline(values, tops.get(name) or _top(name, known), bars, together)
            told = [amount(name, value) for value in (known[-1], min(known), max(known))]
            rows.append([label(name), [Span(line, "cyan")], *told])
    return rows


def _place(name: str) -> tuple[int, list[str]]:
    kind, *rest = label(name).split()
    order = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    return order, [part.zfill(4) for part in (kind, *rest)]


def _top(name: str, known: Sequence[float]) -> float:
    """A share is one of all there is; what has no limit is compared with its own peak."""
    return 100.0 if name.endswith("-percent") and max(known) <= 100 else max(known)


def label(name: str) -> str:
    """`GPU 0 memory` of `gpu-0-memory-bytes`: the name without its unit."""
    for unit in ("-bytes-per-second", "-bytes", "-core-percent", "-percent"):
        if name.endswith(unit):
            name = name.removesuffix(unit)
            break
    first, *rest = name.split("-")
    return " ".join([_WORDS.get(first, first.capitalize()), *rest])


def amount(name: str, value: float) -> str:
    """With its unit, which the name tells: `87 %`, `1.2 GB`, `34 kB/s`."""
    if name.endswith("-core-percent"):
        return f"{value / 100:.2f} cores"
    if name.endswith("-percent"):
        return f"{value:.0f} %"
    if name.endswith("-bytes-per-second"):
        return f"{size(value)}/s"
    return size(value) if name.endswith("-bytes") else f"{value:g}"


def size(count: float) -> str:
    """`0 B`, `34 kB`, `5.6 MB`, `1.2 GB`: three digits at most."""
    for unit in ("B", "kB", "MB", "GB"):
        if round(count) < 1000:
            return (
                f"{count:.1f} {unit}" if 0 < count < 9.95 and unit != "B" else f"{count:.0f} {unit}"
            )
        count /= 1000
    return f"{count:.1f} TB"
