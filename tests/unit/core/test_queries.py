"""The declared indexes and the queries of the control plane belong together.

Firestore's rules, written again without the code that keeps them: equalities alone, or one field
alone, need no index of their own; everything else needs one with the equalities first and then
the order, to the letter.
"""

import json
from importlib.resources import files
from typing import Any

import pytest

from tests.support.builders import queued, session, spec
from tests.support.examples import QUERIES
from xmcloud.core.documents import JOBS, SESSIONS
from xmcloud.core.ports import Query
from xmcloud.core.specs import Overflow

OVERFLOW = Overflow(target="vertex", after_seconds=60)

DECLARED: list[dict[str, Any]] = json.loads(
    (files("xmcloud.core") / "firestore.indexes.json").read_text("utf-8")
)["indexes"]


def fields(index: dict[str, Any]) -> list[tuple[str, str]]:
    """Without the id, which Firestore adds in the direction of the last field."""
    named = [(f["fieldPath"], f["order"][:3].lower()) for f in index["fields"]]
    return [(name, order.replace("des", "desc")) for name, order in named if name != "__name__"]


def needs_an_index(query: Query) -> bool:
    compared = {f.field for f in query.where}
    ordered = {name for name, _ in query.order}
    ranged = {f.field for f in query.where if f.operator != "=="}
    return len(compared | ordered) > 1 and bool(ranged | ordered)


def serves(index: dict[str, Any], query: Query) -> bool:
    equal = {f.field for f in query.where if f.operator == "=="}
    there = fields(index)
    head, tail = {name for name, _ in there[: len(equal)]}, there[len(equal) :]
    return index["collectionGroup"] == query.collection and head == equal and tail == [*query.order]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_served(name: str) -> None:
    query = QUERIES[name]
    assert not needs_an_index(query) or any(serves(index, query) for index in DECLARED)


@pytest.mark.parametrize("name", QUERIES)
def test_a_range_is_on_the_field_that_orders(name: str) -> None:
    """Firestore wants its first order there; a cursor would not be one otherwise."""
    query = QUERIES[name]
    ranged = {f.field for f in query.where if f.operator != "=="}
    assert ranged <= {field for field, _ in query.order[:1]}


@pytest.mark.parametrize(
    "index", DECLARED, ids=lambda index: f"{index['collectionGroup']} {fields(index)}"
)
def test_no_index_is_unused(index: dict[str, Any]) -> None:
    assert any(serves(index, query) for query in QUERIES.values())


def test_queries_name_only_fields_that_documents_have() -> None:
    made = {
        "jobs": JOBS.data(queued(spec().evolve(overflow=OVERFLOW))),
        "sessions": SESSIONS.data(session()),
    }
    for query in QUERIES.values():
        if query.collection in made:
            named = {f.field for f in query.where} | {name for name, _ in query.order}
            assert named <= set(made[query.collection])
