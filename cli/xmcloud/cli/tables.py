"""Tables: in colour on a terminal, else plain aligned text. JSON beside them."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

    from xmcloud.core.models import Statistics


class Span(NamedTuple):
    """A piece of a cell with a style of its own."""

    text: str
    style: str = ""


Cell = str | Sequence[Span]


def print_json(model: "BaseModel") -> None:
    click.echo(model.model_dump_json(indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if sys.stdout.isatty():
        _print_rich(columns, rows)
    else:
        for line in plain_lines(columns, rows):
            click.echo(line)


def print_statistics(statistics: "Statistics", tops: Mapping[str, float] | None = None) -> None:
    """A line of small bars for each series; `tops` is the most that some of them can be."""
    from xmcloud.cli.sparklines import bars_for, statistics_columns, statistics_rows

    rows = statistics_rows(statistics, bars_for(sys.stdout.encoding), tops or {})
    if rows:
        click.echo()
        print_table(statistics_columns(statistics), rows)


def print_fields(fields: Sequence[tuple[str, Cell]]) -> None:
    """Names and values, one a line; those without a value are left out."""
    width = max(len(name) for name, _ in fields)
    for name, cell in fields:
        if cell:
            click.echo(f"{name:{width}}  {_styled(cell)}")


def plain_lines(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    texts = [[column.upper() for column in columns], *([_text(c) for c in row] for row in rows)]
    widths = [max(len(text) for text in column) for column in zip(*texts, strict=True)]
    return [
        "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else "".join(span.text for span in cell)


def _styled(cell: Cell) -> str:
    """With ANSI styles; `click.echo` drops them where stdout is no terminal."""
    if isinstance(cell, str):
        return cell
    return "".join(click.style(span.text, fg=span.style or None) for span in cell)


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(c) if isinstance(c, str) else Text.assemble(*c) for c in row),
        )
    Console(highlight=False).print(table)
