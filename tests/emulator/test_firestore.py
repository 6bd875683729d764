"""What the store over Firestore does beyond the contract, on Google's emulator."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.emulator.proxy import NOBODY, Proxy
from tests.support.examples import QUERIES
from xmcloud.adapters.gcp.firestore import FirestoreStore
from xmcloud.core.errors import TooLarge, Unavailable
from xmcloud.core.ports import Filter, PreconditionFailed, Query, Write

pytestmark = [pytest.mark.anyio, pytest.mark.emulator]
before_firestore = pytest.mark.parametrize("proxy", ["FIRESTORE_EMULATOR_HOST"], indirect=True)


@pytest.fixture
def observed() -> Counter[str]:
    return Counter()


@pytest.fixture
async def store(
    gcp_project: str, observed: Counter[str], anyio_backend: str
) -> AsyncIterator[FirestoreStore]:
    def observe(kind: str, count: int) -> None:
        observed[kind] += count

    store = FirestoreStore(gcp_project, observe)
    yield store
    await store.close()


@before_firestore
async def test_a_commit_whose_answer_was_lost_is_found_out_by_loading_again(
    proxy: Proxy, store: FirestoreStore
) -> None:
    create = Write.create("jobs", "a", {"n": 1})
    proxy.lost_answers["Commit"] = 1
    with pytest.raises(PreconditionFailed):
        await store.commit([create])
    (document,) = await store.get("jobs", ["a"])
    assert document is not None
    assert document.data == {"n": 1}

    proxy.lost_answers["Commit"] = 1
    with pytest.raises(PreconditionFailed):
        await store.commit([Write.replace("jobs", document, {"n": 2})])
    (document,) = await store.get("jobs", ["a"])
    assert document is not None
    assert document.data == {"n": 2}


@before_firestore
async def test_an_apply_whose_answer_was_lost_is_found_out_by_loading_again(
    proxy: Proxy, store: FirestoreStore
) -> None:
    proxy.lost_answers["BatchWrite"] = 1
    assert await store.apply([Write.create("jobs", id, {}) for id in "ab"]) == [None, None]
    assert None not in await store.get("jobs", ["a", "b"])


@before_firestore
async def test_reads_are_tried_again(proxy: Proxy, store: FirestoreStore) -> None:
    await store.commit([Write.create("jobs", id, {"n": 1}) for id in "abc"])
    for method in ("BatchGetDocuments", "RunQuery", "RunAggregationQuery"):
        proxy.lost_answers[method] = 1
    assert None not in await store.get("jobs", ["a", "b", "c"])
    assert len((await store.find(Query("jobs"))).documents) == 3
    assert await store.count(Query("jobs")) == 3
    assert not any(proxy.lost_answers.values())


@before_firestore
async def test_each_call_is_one_request(proxy: Proxy, store: FirestoreStore) -> None:
    await store.commit([Write.create("jobs", id, {"n": 1}) for id in "abc"])
    await store.apply([Write.create("jobs", id, {"n": 1}) for id in "def"])
    await store.get("jobs", ["a", "b", "x"])
    await store.find(Query("jobs", limit=2))
    await store.count(Query("jobs"))
    assert Counter(name for name, _ in proxy.requests) == {
        "Commit": 1,
        "BatchWrite": 1,
        "BatchGetDocuments": 1,
        "RunQuery": 1,
        "RunAggregationQuery": 1,
    }


@before_firestore
async def test_an_apply_larger_than_a_request_is_sent_in_parts(
    proxy: Proxy, store: FirestoreStore
) -> None:
    writes = [Write.create("jobs", f"{n:02}", {"body": "x" * 1_000_000}) for n in range(12)]
    assert None not in await store.apply(writes)
    sizes = [len(request) for request in proxy.sent("BatchWrite")]
    assert len(sizes) > 1
    assert sum(sizes) > 12_000_000


async def test_a_commit_larger_than_a_request_is_refused(store: FirestoreStore) -> None:
    writes = [Write.create("jobs", f"{n}", {"body": "x" * 1_000_000}) for n in range(9)]
    with pytest.raises(TooLarge):
        await store.commit(writes)
    assert await store.count(Query("jobs")) == 0


async def test_operations_are_counted_as_they_are_billed(
    store: FirestoreStore, observed: Counter[str]
) -> None:
    await store.commit([Write.create("jobs", id, {"n": 1}) for id in "abc"])
    assert observed == {"write": 3}
    with pytest.raises(PreconditionFailed):
        await store.commit([Write.create("jobs", "a", {})])
    await store.apply([Write.create("jobs", "a", {}), Write.create("jobs", "d", {"n": 1})])
    assert observed == {"write": 4}
    await store.get("jobs", ["a", "x", "a"])
    assert observed["read"] == 2
    await store.find(Query("jobs"))
    assert observed["read"] == 6
    await store.find(Query("nothing"))
    assert observed["read"] == 7
    await store.count(Query("jobs"))
    assert observed["read"] == 8


async def test_a_replacement_by_the_same_data_keeps_the_version(store: FirestoreStore) -> None:
    (version,) = await store.commit([Write.create("jobs", "a", {"n": 1})])
    (document,) = await store.get("jobs", ["a"])
    assert document is not None
    assert await store.commit([Write.replace("jobs", document, {"n": 1})]) == [version]


@pytest.mark.parametrize("name", QUERIES)
async def test_firestore_takes_every_query_of_the_control_plane(
    store: FirestoreStore, name: str
) -> None:
    assert (await store.find(QUERIES[name])).documents == []
    assert await store.count(QUERIES[name]) == 0


async def test_a_field_of_any_name_can_be_asked_for(store: FirestoreStore) -> None:
    await store.commit([Write.create("jobs", "a", {"odd name.`x`": 1})])
    page = await store.find(Query("jobs", (Filter("odd name.`x`", "==", 1),)))
    assert [document.id for document in page.documents] == ["a"]


async def test_a_store_that_does_not_answer_is_unavailable(
    gcp_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", NOBODY)
    store = FirestoreStore(gcp_project, deadline=0.2)
    for call in (
        store.get("jobs", ["a"]),
        store.find(Query("jobs")),
        store.count(Query("jobs")),
        store.commit([Write.create("jobs", "a", {})]),
        store.apply([Write.create("jobs", "a", {})]),
    ):
        with pytest.raises(Unavailable):
            await call
    await store.close()


async def test_what_firestore_deletes_in_time_names_that_as_a_timestamp(
    store: FirestoreStore, gcp_project: str
) -> None:
    """Text would be kept for ever."""
    from google.cloud import firestore

    await store.commit([Write.create("audit", "a", {"gone_at": "2031-02-03T04:05:06.789012Z"})])
    kept = firestore.Client(project=gcp_project).document("audit/a").get().to_dict()
    assert kept is not None
    assert kept["gone_at"] == datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
