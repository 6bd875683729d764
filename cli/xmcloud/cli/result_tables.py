"""What a job came to, as tables for the terminal."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from shutil import get_terminal_size

import click

from xmcloud.cli.messages import say
from xmcloud.cli.results import (
    Glance,
    Points,
    Results,
    compact,
    number,
    printable,
    small_blob,
)
from xmcloud.cli.sparklines import bars_for, size, sparkline
from xmcloud.cli.tables import Cell, Span, print_table
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Job
from xmcloud.core.series import points
from xmcloud.xm_cloud.client import Client

SHOWN_FILES = 20
PIPE_WIDTH = 160
_NARROWEST, _WIDEST = 8, 40
_SERIES = ("series", "last", "min", "max", "points")


def terminal_width() -> int:
    """Columns that a table may have; a pipe has no edge, but a reader behind it."""
    return get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def print_results(client: Client, job: Job, results: Results) -> None:
    """Values, series, files and inputs, each if there are some."""
    width = terminal_width()
    _print("result", ("value",), value_rows(results, width))
    lines = _lines(client, results.points) if results.series else {}
    _print_series(results, lines, width)
    _print_files(client, job, results)
    inputs = [[printable(n), printable(i.path), size(i.size)] for n, i in results.inputs.items()]
    _print("input", ("path", "size"), inputs)
    if results.cut:
        say("There was more than results hold; the rest is not stored or too large to show.")


def value_rows(results: Results, width: int) -> list[list[Cell]]:
    """Each in one line of the terminal."""
    values = [*results.plain.items(), *results.summary.items()]
    names = [_cut(printable(name), width // 2) for name, _ in values]
    room = max(_NARROWEST, width - 2 - max(map(len, names), default=0))
    return [
        [name, _cut(compact(value), room)] for name, (_, value) in zip(names, values, strict=True)
    ]


def series_rows(
    series: Mapping[str, Glance], lines: Mapping[str, Sequence[float]], bars: str, width: int
) -> list[list[Cell]]:
    """With the shape of each whose points are known, from its lowest to its highest."""
    rows: list[list[str]] = [
        [printable(name), *(_value(v) for v in (g.last, g.min, g.max)), str(g.count)]
        for name, g in series.items()
    ]
    headed = zip(_SERIES, *rows, strict=True)
    room = min(_WIDEST, max(_NARROWEST, width - sum(max(map(len, each)) + 2 for each in headed)))
    return [
        [
            row[0],
            *([[Span(shape(lines.get(name, ()), bars, room), "cyan")]] if lines else []),
            *row[1:],
        ]
        for name, row in zip(series, rows, strict=True)
    ]


def shape(values: Sequence[float], bars: str, width: int = _WIDEST) -> str:
    """A line of bars from the lowest to the highest value; blank where it is no number."""
    known = [value for value in values if isfinite(value)]
    if not known:
        return ""
    low, high = min(known), max(known)
    heights = [value / 2 - low / 2 if isfinite(value) else None for value in values]
    return sparkline(heights, high / 2 - low / 2, bars, width=width)


def _print(name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if rows:
        click.echo()
        print_table((name, *columns), rows)


def _print_series(results: Results, lines: Mapping[str, Sequence[float]], width: int) -> None:
    if results.series:
        rows = series_rows(results.series, lines, bars_for(sys.stdout.encoding), width)
        name, *others = _SERIES
        _print(name, [*(["over time"] if lines else []), *others], rows)


def _lines(client: Client, stored: Points | None) -> dict[str, list[float]]:
    """The values of each series, if what has them is there and not too large."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    try:
        names = small_blob(client, stored.names) if stored else None
        records = small_blob(client, stored.points) if stored and names else None
        for name, _, value, _ in points(names or b"", [records or b""]):
            found[name].append(value)
    except (NotFound, ValueError):
        return {}
    return found


def _print_files(client: Client, job: Job, results: Results) -> None:
    names = list(results.files)
    shown = {name: results.files[name] for name in names[:SHOWN_FILES]}
    sizes = blob_sizes(client, shown.values())
    _print("file", ("size",), [[printable(n), size_cell(sizes[d])] for n, d in shown.items()])
    if names:
        id = job.id[:8]
        left = len(names) - len(shown)
        more = f"{left} more files: xmcloud download {id} --list\n" if left else ""
        say(f"{more}Fetch them: xmcloud download {id}")


def blob_sizes(client: Client, digests: Iterable[str]) -> dict[str, int | None]:
    """Of several at once; None of one that is gone."""
    wanted = list(dict.fromkeys(digests))
    with ThreadPoolExecutor(8) as threads:
        return dict(zip(wanted, threads.map(client.blob_size, wanted), strict=True))


def size_cell(count: int | None) -> Cell:
    return [Span("not stored any more", "red")] if count is None else size(count)


def _value(value: float | str) -> str:
    return printable(value) if isinstance(value, str) else number(value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
