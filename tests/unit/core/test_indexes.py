"""Which queries the declared indexes serve."""

import json
from importlib.resources import files

import pytest

from tests.support.examples import QUERIES
from xmcloud.core.indexes import Index, UndeclaredIndex, declared, require_index
from xmcloud.core.ports import Direction, Filter, Query

INDEX = Index("jobs", (("queue", "asc"), ("state", "asc"), ("position", "desc")))


def query(*equal: str, order: tuple[tuple[str, Direction], ...]) -> Query:
    return Query("jobs", tuple(Filter(name, "==", "x") for name in equal), order)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        (query("queue", "state", order=(("position", "desc"),)), True),
        (query("state", "queue", order=(("position", "desc"),)), True),
        (query("queue", "state", order=(("position", "asc"),)), False),
        (query("queue", order=(("state", "asc"), ("position", "desc"))), True),
        (query("state", order=(("position", "desc"),)), False),
        (query("queue", "state", "pool", order=(("position", "desc"),)), False),
        (query("queue", "state", order=()), False),
        (query(order=INDEX.fields), True),
    ],
)
def test_an_index_serves_equalities_at_its_head_and_its_own_order(
    asked: Query, served: bool
) -> None:
    assert INDEX.serves(asked) is served


def test_an_index_serves_its_collection_only() -> None:
    other = Index("experiments", INDEX.fields)
    assert not other.serves(query("queue", "state", order=(("position", "desc"),)))


def test_every_entry_of_the_file_is_declared() -> None:
    raw = json.loads((files("xmcloud.core") / "firestore.indexes.json").read_text("utf-8"))
    assert [
        (entry["collectionGroup"], [field["fieldPath"] for field in entry["fields"]])
        for entry in raw["indexes"]
    ] == [(index.collection, [name for name, _ in index.fields]) for index in declared()]
    assert {direction for index in declared() for _, direction in index.fields} <= {"asc", "desc"}
    assert {entry["queryScope"] for entry in raw["indexes"]} == {"COLLECTION"}
    assert len(set(declared())) == len(declared())


@pytest.mark.parametrize(
    "asked",
    [
        Query("jobs"),
        Query("jobs", (Filter("a", "==", 1),)),
        Query("jobs", (Filter("a", "==", 1), Filter("b", "==", 2))),
        Query("jobs", (), (("a", "asc"),)),
        Query("jobs", (), (("a", "desc"),)),
        Query("jobs", (Filter("a", ">=", 1), Filter("a", "<", 2)), (("a", "asc"),)),
    ],
)
def test_equalities_or_one_field_need_no_declaration(asked: Query) -> None:
    require_index(asked)


@pytest.mark.parametrize(
    "asked",
    [
        Query("jobs", (Filter("a", "==", 1),), (("b", "asc"),)),
        Query("jobs", (Filter("a", "==", 1), Filter("b", "<", 1)), (("b", "asc"),)),
        Query("jobs", (), (("a", "asc"), ("b", "asc"))),
        Query("nothing", (Filter("state", "==", 1),), (("permit_due_at", "asc"),)),
        Query("jobs", (Filter("state", "==", 1),), (("permit_due_at", "desc"),)),
    ],
)
def test_everything_else_must_be_declared(asked: Query) -> None:
    with pytest.raises(UndeclaredIndex, match=r"firestore\.indexes\.json"):
        require_index(asked)


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_of_the_control_plane_is_served(name: str) -> None:
    require_index(QUERIES[name].page(4, "a cursor does not matter"))
