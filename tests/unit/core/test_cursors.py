"""Cursors go round, and what is none is refused."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcloud.core import cursors
from xmcloud.core.errors import InvalidInput
from xmcloud.core.ports import Document, Query

scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ids = st.text(min_size=1).filter(lambda id: "/" not in id)
json_values = st.recursive(
    st.none() | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def ordered(fields: int, after: str | None = None) -> Query:
    return Query("jobs", order=tuple((f"f{n}", "asc") for n in range(fields)), after=after)


def encoded(position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def refuse(after: str, fields: int = 1) -> None:
    with pytest.raises(InvalidInput, match="cursor") as refused:
        cursors.decode(ordered(fields, after))
    assert refused.value.field == "cursor"


@given(st.lists(scalars, max_size=3), ids)
def test_a_cursor_is_the_position_of_its_document(values: list[float | str], id: str) -> None:
    query = ordered(len(values))
    document = Document(id, {f"f{n}": value for n, value in enumerate(values)}, "1")
    cursor = cursors.encode(query, document)
    position = cursors.decode(query.page(1, cursor))
    assert position == (values, id)
    assert position is not None
    assert [type(value) for value in position[0]] == [type(value) for value in values]


@given(ids)
def test_a_cursor_needs_no_escaping_in_a_url(id: str) -> None:
    cursor = cursors.encode(ordered(0), Document(id, {}, "1"))
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_no_cursor_is_the_beginning() -> None:
    assert cursors.decode(ordered(1)) is None


@given(st.text())
def test_any_text_is_a_position_or_refused(after: str) -> None:
    try:
        position = cursors.decode(ordered(1, after))
    except InvalidInput:
        return
    assert position is not None


@given(json_values)
def test_any_json_is_a_position_or_refused(value: object) -> None:
    try:
        position = cursors.decode(ordered(1, encoded(value)))
    except InvalidInput:
        return
    assert [[*position[0]], position[1]] == value if position else False


@pytest.mark.parametrize(
    "position",
    [
        [["x"], ""],
        [["x"], "a/b"],
        [["x"], 1],
        [["x"], None],
        [[], "id"],
        [["x", "y"], "id"],
        [[None], "id"],
        [[["x"]], "id"],
        [{"x": 1}, "id"],
        ["x", "id"],
        [["x"], "id", "more"],
        [["x"]],
        {"a": 1, "b": 2},
        "ab",
        1,
        None,
    ],
)
def test_what_is_no_position_is_refused(position: object) -> None:
    refuse(encoded(position))


@pytest.mark.parametrize(
    "after", ["", "a", "é", "ab+/", "a b", "====", "_w", f"{encoded([['x'], 'id'])}!"]
)
def test_what_is_no_base64_of_json_is_refused(after: str) -> None:
    refuse(after)


def test_text_that_is_not_well_formed_is_refused() -> None:
    refuse(encoded([["\ud800"], "id"]))
    refuse(encoded([["x"], "\ud800"]))


def test_deep_nesting_is_refused() -> None:
    refuse(base64.urlsafe_b64encode(b"[" * 30_000).decode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9223372036854775808"])
def test_numbers_that_no_document_holds_are_refused(number: str) -> None:
    refuse(base64.urlsafe_b64encode(f'[[{number}],"id"]'.encode()).decode())
