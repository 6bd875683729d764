"""Two runs beside each other, on the terminal."""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from re import fullmatch

import click
from pydantic import JsonValue

from xmcloud.cli.tables import Cell, Span, print_table
from xmcloud.xm_cloud.comparing.differences import Change, Difference, Pair

STYLES = {Change.ADDED: "green", Change.REMOVED: "red", Change.CHANGED: "yellow"}
_WIDTH = 100
_COMMON = 20
_DIGEST = 12


def print_differences(pair: Pair, differences: Sequence[Difference]) -> None:
    """A table for each section."""
    for number, (section, found) in enumerate(groupby(differences, key=lambda d: d.section)):
        if number:
            click.echo()
        rows = [_row(each) for each in found]
        columns: tuple[str, ...] = (section, pair.a, pair.b, "difference")
        if not any(row[-1] for row in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        print_table(columns, rows)


def _row(each: Difference) -> list[Cell]:
    a, b = shown(each)
    style = STYLES.get(each.change, "")
    return [each.name, [Span(a, style)], [Span(b, style)], each.note]


def shown(each: Difference) -> tuple[str, str]:
    """Both values in one line each, cut so that what differs is seen."""
    a = "" if each.change is Change.ADDED else _text(each.a)
    b = "" if each.change is Change.REMOVED else _text(each.b)
    start = _same_start(a, b)
    if max(len(a), len(b)) > _WIDTH and start > _COMMON and a and b:
        return _cut(f"…{a[start - _COMMON :]}"), _cut(f"…{b[start - _COMMON :]}")
    return _cut(a), _cut(b)


def _text(value: JsonValue) -> str:
    """As JSON; text as it is, unless it could be taken for something else."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", value):
        return value[:_DIGEST]
    try:
        json.loads(value)
    except ValueError:
        plain = value.isprintable() and bool(value.strip())
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _same_start(a: str, b: str) -> int:
    length = min(len(a), len(b))
    return next((n for n in range(length) if a[n] != b[n]), length)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def names(differences: Iterable[Difference]) -> str:
    """`code, packages (numpy, scipy)`: what differs, in a few words."""
    parts = []
    for section, found in groupby(differences, key=lambda d: d.section):
        some = [each.name for each in found]
        more = f" and {len(some) - 5} more" if len(some) > 5 else ""
        alone = some == [section.value]
        parts.append(section.value if alone else f"{section.value} ({', '.join(some[:5])}{more})")
    return ", ".join(parts)
