"""The jobs of an experiment beside each other: what they were given, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from xmcloud.cli.results import Results, compact, printable
from xmcloud.core.models import Job
from xmcloud.xm_cloud.comparing.differences import Section
from xmcloud.xm_cloud.comparing.facts import defined
from xmcloud.xm_cloud.rows import label, short

_GAP = 2
_LONGEST_CELL = 24


class Table(NamedTuple):
    columns: tuple[str, ...]
    rows: list[list[str]]


class _Column(NamedTuple):
    name: str
    cells: list[str]

    @property
    def width(self) -> int:
        return _GAP + max(map(len, [self.name, *self.cells]))

    @property
    def dull(self) -> tuple[bool, int]:
        """Sorts behind: what is the same everywhere, then what some jobs have not."""
        known = [cell for cell in self.cells if cell]
        return len(set(known)) < 2, len(self.cells) - len(known)


def compared(jobs: Sequence[Job], width: int) -> Table | None:
    """Jobs that have results, in their order; None if there is nothing to compare.

    Parameters that are not the same everywhere get half of the width at most. Of the results,
    those that differ and that all jobs have come first; the rest is left out where it ends.
    """
    found = {job.id: dict(Results.of(job.results).scalars()) for job in jobs}
    shown = [job for job in jobs if found[job.id]]
    if len(shown) < 2:
        return None
    given = [defined(job.spec)[Section.PARAMETERS] for job in shown]
    names = _Column("unit", [printable(label(job)) for job in shown])
    varied = [column for column in _columns(given) if len(set(column.cells)) > 1]
    width += _GAP
    left = _fitting(varied, width // 2 - names.width)
    taken = sum(column.width for column in (names, *left))
    right = _fitting(_columns([found[job.id] for job in shown]), width - taken)
    if not right:
        return None
    columns = [names, *left, *right]
    rows = [list(row) for row in zip(*(column.cells for column in columns), strict=True)]
    return Table(tuple(column.name for column in columns), rows)


def _columns(values: Sequence[Mapping[str, JsonValue]]) -> list[_Column]:
    """One for each name, in the order in which they come."""
    names = dict.fromkeys(name for each in values for name in each)
    return [
        _Column(printable(name), [_cell(each[name]) if name in each else "" for each in values])
        for name in names
    ]


def _cell(value: JsonValue) -> str:
    text = short(value) if isinstance(value, float) else compact(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """The most telling ones that fit, in their order."""
    chosen: list[_Column] = []
    for column in sorted(columns, key=lambda each: each.dull):
        if column.width <= width:
            chosen.append(column)
            width -= column.width
    return [column for column in columns if column in chosen]
