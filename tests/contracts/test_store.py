"""What every `Store` promises."""

import asyncio
import json
import math
import operator
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import JsonValue

from tests.contracts.counting import add_one
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.indexes import UndeclaredIndex
from xmcloud.core.ports import (
    Direction,
    Document,
    Filter,
    JsonObject,
    Operator,
    PreconditionFailed,
    Query,
    Store,
    Write,
)

pytestmark = pytest.mark.anyio


async def put(store: Store, collection: str, documents: dict[str, JsonObject]) -> None:
    writes = [Write.create(collection, id, data) for id, data in documents.items()]
    assert None not in await store.apply(writes)


async def load(store: Store, collection: str, id: str) -> Document:
    (document,) = await store.get(collection, [id])
    assert document is not None
    return document


async def walk(store: Store, query: Query, size: int) -> list[list[str]]:
    """The ids of each page."""
    pages, after = [], None
    while True:
        page = await store.find(query.page(size, after))
        pages.append([document.id for document in page.documents])
        if page.cursor is None:
            return pages
        after = page.cursor


def flat(pages: list[list[str]]) -> list[str]:
    return [id for page in pages for id in page]


def waiting(position: int, **fields: str) -> JsonObject:
    return {"queue": "q", "state": "queued", "pool": "", "position": position, **fields}


def claimable(*more: Filter) -> Query:
    where = tuple(Filter(f, "==", v) for f, v in (("queue", "q"), ("state", "queued")))
    return Query("jobs", (*where, *more), (("position", "asc"),))


LAST_FIRST = Query("jobs", claimable().where, (("position", "desc"),))


# Documents


async def test_get_answers_in_the_order_of_the_ids_with_none_for_what_is_not_there(
    store: Store,
) -> None:
    await put(store, "jobs", {"a": {"n": 1}, "b": {"n": 2}})
    found = await store.get("jobs", ["b", "x", "a", "b"])
    assert [d and d.data for d in found] == [{"n": 2}, None, {"n": 1}, {"n": 2}]
    assert [d and d.id for d in found] == ["b", None, "a", "b"]
    assert await store.get("jobs", []) == []
    assert await store.get("never_written", ["a"]) == [None]


async def test_collections_are_apart(store: Store) -> None:
    await put(store, "jobs", {"a": {"n": 1}})
    assert await store.get("experiments", ["a"]) == [None]


async def test_values_come_back_with_their_types(store: Store) -> None:
    data: JsonObject = {
        "float": 1.0,
        "int": 1,
        "true": True,
        "null": None,
        "text": 'é\U0001f680 "quoted" \\ \n \x00 [[ ,[ 12345678901234567890',
        "empty": {},
        "nothing": [],
        "deep": {"list": [{"a": [1, 2.0, "x", None, False]}, {}]},
        "most": 2**63 - 1,
        "least": -(2**63),
        "huge": 1.7976931348623157e308,
        "tiny": 5e-324,
        "third": 1 / 3,
    }
    await put(store, "jobs", {"a": data})
    assert repr_of((await load(store, "jobs", "a")).data) == repr_of(data)


def repr_of(data: JsonObject) -> str:
    """Unlike ==, tells 1 from 1.0 and from True."""
    return json.dumps(data, sort_keys=True)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [[1]], {"a": [{"b": [1, [2]]}]}])
async def test_what_firestore_cannot_keep_is_refused(store: Store, value: object) -> None:
    with pytest.raises(InvalidInput):
        await store.commit([Write.create("jobs", "a", {"value": value})])  # type: ignore[dict-item]
    assert await store.get("jobs", ["a"]) == [None]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "\ud800"])
async def test_what_is_no_json_is_refused(store: Store, value: float | str) -> None:
    with pytest.raises(InvalidInput):
        await store.commit([Write.create("jobs", "a", {"value": value})])


async def test_the_end_of_a_time_to_live_reads_as_it_was_written(store: Store) -> None:
    """Which Firestore keeps as a timestamp."""
    data: JsonObject = {"gone_at": "2031-02-03T04:05:06.789012Z", "at": "2030-01-01T00:00:00Z"}
    await put(store, "audit", {"a": data})
    assert (await load(store, "audit", "a")).data == data


async def test_a_document_over_1_mib_is_refused(store: Store) -> None:
    with pytest.raises(TooLarge):
        await store.commit([Write.create("jobs", "a", {"body": "x" * 1024 * 1024})])
    await store.commit([Write.create("jobs", "a", {"body": "x" * 1_000_000})])


# Commit


async def test_commit_answers_the_versions_that_are_read_afterwards(store: Store) -> None:
    versions = await store.commit([Write.create("jobs", id, {"n": 1}) for id in "ab"])
    assert [d and d.version for d in await store.get("jobs", ["a", "b"])] == versions
    first = await load(store, "jobs", "a")
    (second,) = await store.commit([Write.replace("jobs", first, {"n": 2})])
    assert second != first.version
    assert await load(store, "jobs", "a") == Document("a", {"n": 2}, second)


async def test_replace_replaces_all_fields(store: Store) -> None:
    await put(store, "jobs", {"a": {"n": 1, "gone": 1}})
    await store.commit([Write.replace("jobs", await load(store, "jobs", "a"), {"n": 2})])
    assert (await load(store, "jobs", "a")).data == {"n": 2}


async def a_taken_id(store: Store) -> Write:
    return Write.create("jobs", "a", {"n": 9})


async def a_stale_version(store: Store) -> Write:
    old = await load(store, "jobs", "a")
    await store.commit([Write.replace("jobs", old, {"n": 2})])
    return Write.replace("jobs", old, {"n": 9})


async def a_missing_document(store: Store) -> Write:
    return Write.replace("jobs", Document("x", {}, (await load(store, "jobs", "a")).version), {})


LOSERS = [a_taken_id, a_stale_version, a_missing_document]


@pytest.mark.parametrize("loser", LOSERS)
async def test_a_commit_whose_precondition_fails_changes_nothing(
    store: Store, loser: Callable[[Store], Awaitable[Write]]
) -> None:
    await put(store, "jobs", {"a": {"n": 1}, "b": {"n": 1}})
    lost = await loser(store)
    before = await store.get("jobs", ["a", "b", "c"])
    assert before[1] is not None
    others = [Write.replace("jobs", before[1], {"n": 3}), Write.create("jobs", "c", {})]
    for writes in ([lost], [*others, lost], [lost, *others]):
        with pytest.raises(PreconditionFailed):
            await store.commit(writes)
    assert await store.get("jobs", ["a", "b", "c"]) == before


@pytest.mark.parametrize("loser", LOSERS)
async def test_apply_answers_none_for_each_loser_and_makes_the_others(
    store: Store, loser: Callable[[Store], Awaitable[Write]]
) -> None:
    await put(store, "jobs", {"a": {"n": 1}})
    lost = await loser(store)
    before = await store.get("jobs", ["a", "x"])
    writes = [Write.create("jobs", "b", {"n": 1}), lost, Write.create("jobs", "c", {"n": 1})]
    versions = await store.apply(writes)
    assert versions[1] is None
    assert [d and d.version for d in await store.get("jobs", ["b", "c"])] == [
        versions[0],
        versions[2],
    ]
    assert await store.get("jobs", ["a", "x"]) == before


async def test_nothing_to_write(store: Store) -> None:
    assert await store.commit([]) == []
    assert await store.apply([]) == []


async def test_a_commit_may_span_collections_and_500_documents(store: Store) -> None:
    writes = [Write.create("jobs", f"{n:03}", {"n": n}) for n in range(250)]
    writes += [Write.create("experiments", f"{n:03}", {"n": n}) for n in range(250)]
    assert len(await store.commit(writes)) == 500
    assert (await load(store, "jobs", "249")).data == {"n": 249}
    assert (await load(store, "experiments", "249")).data == {"n": 249}


async def test_concurrent_changes_of_one_document_lose_none(store: Store) -> None:
    await put(store, "jobs", {"a": {"n": 0}})
    await asyncio.gather(*(add_one(store, "a") for _ in range(20)))
    assert (await load(store, "jobs", "a")).data == {"n": 20}


async def test_of_concurrent_creations_one_wins(store: Store) -> None:
    def create(n: int) -> list[Write]:
        return [
            Write.create("jobs", "same", {"n": n}),
            Write.create("jobs", f"own{n}", {}),
        ]

    answers = await asyncio.gather(
        *(store.commit(create(n)) for n in range(10)), return_exceptions=True
    )
    (winner,) = [n for n, answer in enumerate(answers) if isinstance(answer, list)]
    assert {type(answer) for answer in answers} == {list, PreconditionFailed}
    assert (await load(store, "jobs", "same")).data == {"n": winner}
    own = await store.get("jobs", [f"own{n}" for n in range(10)])
    assert [n for n, document in enumerate(own) if document] == [winner]


# Queries


async def test_a_query_without_conditions_is_in_order_of_id(store: Store) -> None:
    await put(store, "jobs", {id: {} for id in "cab"})
    assert await walk(store, Query("jobs"), 2) == [["a", "b"], ["c"]]
    assert await walk(store, Query("nothing"), 2) == [[]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("query", [claimable(), LAST_FIRST])
async def test_pages_of_an_order_with_ties_lose_and_repeat_nothing(
    store: Store, query: Query, size: int
) -> None:
    await put(
        store,
        "jobs",
        {id: waiting(position) for id, position in zip("fbdace", (1, 2, 2, 2, 3, 3), strict=True)},
    )
    pages = await walk(store, query, size)
    expected = {"asc": list("fabdce"), "desc": list("ecdbaf")}
    assert flat(pages) == expected[query.order[0][1]]
    assert {len(page) for page in pages[:-1]} <= {size}
    assert pages[-1] != []


async def test_the_last_page_has_no_cursor_even_when_it_is_full(store: Store) -> None:
    await put(store, "jobs", {id: waiting(1) for id in "ab"})
    assert (await store.find(claimable().page(2, None))).cursor is None
    assert (await store.find(claimable().page(1, None))).cursor is not None


async def test_a_page_goes_on_where_its_document_was_after_that_has_changed(store: Store) -> None:
    await put(store, "jobs", {id: waiting(n) for n, id in enumerate("abcd")})
    page = await store.find(claimable().page(2, None))
    gone = {**page.documents[-1].data, "state": "running"}
    await store.commit([Write.replace("jobs", page.documents[-1], gone)])
    rest = await store.find(claimable().page(2, page.cursor))
    assert [document.id for document in rest.documents] == ["c", "d"]


@pytest.mark.parametrize("after", ["", "x", "!!", "bm90IGpzb24"])
async def test_a_cursor_that_is_none_is_refused(store: Store, after: str) -> None:
    with pytest.raises(InvalidInput):
        await store.find(claimable().page(2, after))


VALUES: dict[str, list[str | int | float | bool]] = {
    "number": [-(2**63), -1, 0, 0.1 + 0.2, 1 / 3, 1, 2.5, 2**53 + 1, 2**63 - 1],
    "text": ["", "a", "ab", "b", "\u00e9", "\uffff", "\U0001f680", "1"],
    "bool": [False, True],
}
COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("sign", COMPARE)
@pytest.mark.parametrize("kind", VALUES)
async def test_a_comparison_finds_what_has_that_type_and_compares_so(
    store: Store, sign: Operator, kind: str
) -> None:
    everything = [value for values in VALUES.values() for value in values]
    documents: dict[str, JsonObject] = {
        f"{n:02}": {"field": value} for n, value in enumerate(everything)
    }
    await put(
        store, "jobs", {**documents, "none": {"field": None}, "list": {"field": ["a"]}, "not": {}}
    )
    for value in VALUES[kind]:
        expected = {
            f"{n:02}"
            for n, other in enumerate(everything)
            if other in VALUES[kind]
            and isinstance(other, bool) == isinstance(value, bool)
            and COMPARE[sign](other, value)
        }
        order: tuple[tuple[str, Direction], ...] = (("field", "asc"),) if sign != "==" else ()
        query = Query("jobs", (Filter("field", sign, value),), order)
        assert set(flat(await walk(store, query, 3))) == expected, (sign, value)
        assert await store.count(query) == len(expected)


async def test_text_is_in_order_of_code_points(store: Store) -> None:
    texts = ["\U0001f680", "b", "\uffff", "", "ab", "\u00e9", "a"]
    await put(store, "jobs", {str(n): {"field": text} for n, text in enumerate(texts)})
    page = await store.find(Query("jobs", order=(("field", "asc"),)))
    assert [document.data["field"] for document in page.documents] == sorted(texts)


async def test_conditions_hold_together(store: Store) -> None:
    await put(
        store,
        "jobs",
        {
            "a": waiting(1),
            "b": waiting(2),
            "c": waiting(3),
            "d": waiting(4),
            "pool": waiting(2, pool="gpu"),
            "queue": waiting(2, queue="other"),
            "state": waiting(2, state="running"),
        },
    )
    between = (Filter("position", ">=", 2), Filter("position", "<", 4))
    pool = Filter("pool", "==", "")
    assert flat(await walk(store, claimable(*between), 1)) == ["b", "pool", "c"]
    assert flat(await walk(store, claimable(pool, *between), 1)) == ["b", "c"]
    backwards = Query(
        "jobs", (*claimable().where, Filter("position", "<", 4)), (("position", "desc"),)
    )
    assert flat(await walk(store, backwards, 1)) == ["c", "pool", "b", "a"]
    assert await store.count(claimable(*between)) == 3


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_equalities_alone_are_in_order_of_id(store: Store, size: int) -> None:
    await put(
        store,
        "jobs",
        {id: {"session": "s", "stop_requested": id in "bd"} for id in "edcba"},
    )
    stopping = Query("jobs", (Filter("session", "==", "s"), Filter("stop_requested", "==", True)))
    assert flat(await walk(store, stopping, size)) == ["b", "d"]
    assert await store.count(stopping) == 2


async def test_count_ignores_the_page(store: Store) -> None:
    await put(store, "jobs", {f"{n:03}": waiting(n) for n in range(150)})
    page = await store.find(claimable().page(10, None))
    assert await store.count(claimable().page(10, page.cursor)) == 150
    assert await store.count(Query("jobs")) == 150
    assert await store.count(Query("nothing")) == 0


JULY = Query("usage", (Filter("project", "==", "p"), Filter("month", "==", "2026-07")))


async def test_total_adds_what_is_a_number(store: Store) -> None:
    june: JsonObject = {"project": "p", "month": "2026-06", "gpu_seconds": 1000}
    july: JsonObject = {"project": "p", "month": "2026-07"}
    values: list[JsonValue] = [1.5, 2, -0.25, "9", True, None, [7]]
    everything = [june, july, *({**july, "gpu_seconds": value} for value in values)]
    await put(store, "usage", {f"{n}": each for n, each in enumerate(everything)})
    page = await store.find(JULY.page(1, None))
    total = await store.total(JULY.page(1, page.cursor), "gpu_seconds")
    assert isinstance(total, float)
    assert total == 3.25
    assert await store.total(Query("usage"), "gpu_seconds") == 1003.25


async def test_total_of_nothing_is_nothing_and_of_integers_exact(store: Store) -> None:
    assert await store.total(JULY, "gpu_seconds") == 0
    many: dict[str, JsonObject] = {
        f"{n:03}": {"project": "p", "month": "2026-07", "gpu_seconds": n} for n in range(120)
    }
    await put(store, "usage", many)
    assert await store.total(JULY, "gpu_seconds") == 7140


async def test_a_query_that_no_index_serves_is_refused(store: Store) -> None:
    query = Query("jobs", (Filter("queue", "==", "q"),), (("unit", "asc"),))
    with pytest.raises(UndeclaredIndex):
        await store.find(query)
    with pytest.raises(UndeclaredIndex):
        await store.count(query)
    with pytest.raises(UndeclaredIndex):
        await store.total(JULY, "person_seconds")
