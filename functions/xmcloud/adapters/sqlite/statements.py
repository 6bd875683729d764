"""Queries as SQL, each a walk along one index."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xmcloud.adapters.sqlite.codec import parameter
from xmcloud.adapters.sqlite.schema import checked, column, index_for, index_for_count, index_name
from xmcloud.core import cursors
from xmcloud.core.errors import InvalidInput
from xmcloud.core.indexes import Index
from xmcloud.core.ports import Direction, Filter, Operator, Query

Scalar = str | int | float | bool
Statement = tuple[str, list[object]]

_BEYOND: dict[Direction, str] = {"asc": ">", "desc": "<"}
_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Term:
    """A comparison of a column with a placeholder."""

    column: str
    operator: str
    placeholder: str
    value: object

    @property
    def side(self) -> str:
        return self.operator[0]

    @property
    def text(self) -> bool:
        return isinstance(self.value, str) and self.placeholder == "?"


def page(query: Query) -> Iterator[Statement]:
    """Statements whose rows (id, version, data), one after another, are the page and one more.

    After a cursor there is one statement for each prefix of the order that may tie with it, the
    longest first. Raises `InvalidInput` for a cursor of another query.
    """
    equal = [_term(f) for f in query.where if f.operator == "=="]
    ranges = _ranges(query)
    index = index_for(query)
    position = cursors.decode(query)
    if position is None:
        yield _select(query, index, equal + ranges)
        return
    values, last = position
    _check_position(query, values)
    named = [(name, value) for (name, _), value in zip(query.order, values, strict=True)]
    ties = [_Term(column(name), "=", *parameter("cursor", value)) for name, value in named]
    yield _select(
        query,
        index,
        [*equal, *ties, _Term("id", _BEYOND[query.id_direction], *parameter("cursor", last))],
    )
    for depth in range(len(ties) - 1, -1, -1):
        tie, (_, direction) = ties[depth], query.order[depth]
        beyond = _Term(tie.column, _BEYOND[direction], tie.placeholder, tie.value)
        rest = [] if depth else [r for r in ranges if r.side != beyond.side]
        yield _select(query, index, [*equal, *ties[:depth], beyond, *rest])


def count(query: Query) -> Statement:
    terms = [_term(f) for f in query.where if f.operator == "=="] + _ranges(query)
    condition, values = _conditions(terms)
    source = _source(query, index_for_count(query))
    return f"SELECT count(*) FROM {source}{condition}", values  # noqa: S608 - names are checked


def total(query: Query, field: str) -> Statement:
    """The sum, and of how many. Booleans are blobs there, and text is no number either."""
    terms = [_term(f) for f in query.where if f.operator == "=="] + _ranges(query)
    condition, values = _conditions(terms)
    number = column(field)
    summed = f"CASE WHEN typeof({number}) IN ('integer', 'real') THEN {number} END"
    source = _source(query, index_for(query))
    return f"SELECT total({summed}), count(*) FROM {source}{condition}", values  # noqa: S608


def _select(query: Query, index: Index | None, terms: list[_Term]) -> Statement:
    condition, values = _conditions(terms)
    order = "".join(f"{column(name)} {direction}, " for name, direction in query.order)
    source = f"{_source(query, index)}{condition} ORDER BY {order}id {query.id_direction}"
    return f"SELECT id, version, data FROM {source} LIMIT ?", [*values, query.limit + 1]  # noqa: S608


def _source(query: Query, index: Index | None) -> str:
    table = f'"{checked(query.collection)}"'
    return table if index is None else f"{table} INDEXED BY {index_name(index)}"


def _conditions(terms: list[_Term]) -> Statement:
    text = " AND ".join(f"{t.column} {t.operator} {t.placeholder}" for t in terms)
    return f" WHERE {text}" if text else "", [t.value for t in terms]


def _term(where: Filter) -> _Term:
    sign = "=" if where.operator == "==" else where.operator
    return _Term(column(where.field), sign, *parameter(where.field, where.value))


def _ranges(query: Query) -> list[_Term]:
    """The ranges, closed on the open side so that values of other types stay out."""
    terms = [_term(f) for f in query.where if f.operator != "=="]
    sides = {(t.column, t.side) for t in terms}
    return terms + [
        bound
        for term in terms
        for bound in _type_bounds(term)
        if (bound.column, bound.side) not in sides
    ]


def _type_bounds(term: _Term) -> list[_Term]:
    """SQLite's order of types is numbers, text, blobs; booleans are blobs here."""
    if isinstance(term.value, bytes):
        return [_Term(term.column, ">=", "?", b"")]
    if term.text:
        return [_Term(term.column, ">=", "?", ""), _Term(term.column, "<", "?", b"")]
    return [_Term(term.column, "<", "?", "")]


def _check_position(query: Query, values: list[Scalar]) -> None:
    placed = dict(zip((name for name, _ in query.order), values, strict=True))
    for where in query.where:
        value = placed.get(where.field, where.value)
        alike = isinstance(value, str) == isinstance(where.value, str)
        if where.operator != "==" and not (alike and _COMPARE[where.operator](value, where.value)):
            raise InvalidInput("cursor", query.after, "a cursor of an earlier page of this query")
