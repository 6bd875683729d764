"""What the adapters for Google Cloud do beyond the contracts, on Google's own emulators."""

import asyncio
import inspect
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, get_type_hints

import grpc
import pytest
from google.pubsub_v1 import types as pubsub
from google.pubsub_v1.services.subscriber import SubscriberAsyncClient
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from xmcloud.adapters.gcp.firestore import FirestoreStore
from xmcloud.adapters.gcp.pubsub import PubSubQueue
from xmcloud.adapters.gcp.storage import GcsBlobs
from xmcloud.core import queries
from xmcloud.core.errors import NotFound, TooLarge, Unavailable
from xmcloud.core.models import JobState
from xmcloud.core.ports import (
    Delivery,
    Filter,
    Message,
    PreconditionFailed,
    Query,
    Subscription,
    Write,
)

pytestmark = [pytest.mark.anyio, pytest.mark.emulator]

LONG = 10.0
"""Seconds; ends a test that would fail, far less than the acknowledgement deadline."""
NOBODY = "127.0.0.1:1"


class Proxy(grpc.GenericRpcHandler):
    """Passes calls on to an emulator, remembers them, and loses answers as told."""

    def __init__(self, target: str) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.lost_answers: Counter[str] = Counter()
        self._channel = grpc.aio.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1)]
        )
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers([self])

    async def start(self) -> str:
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"127.0.0.1:{port}"

    async def stop(self) -> None:
        await self._server.stop(None)
        await self._channel.close()

    def sent(self, method: str) -> list[bytes]:
        return [request for name, request in self.requests if name == method]

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.stream_stream_rpc_method_handler(partial(self._forward, details.method))

    async def _forward(self, method: str, requests: Any, context: Any) -> AsyncIterator[bytes]:
        name = method.rpartition("/")[2]

        async def remembered() -> AsyncIterator[bytes]:
            async for request in requests:
                self.requests.append((name, request))
                yield request

        metadata = [(k, v) for k, v in context.invocation_metadata() if k == "authorization"]
        try:
            call: Any = self._channel.stream_stream(method)
            async for answer in call(remembered(), metadata=metadata):
                if self.lost_answers[name]:
                    self.lost_answers[name] -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
                yield answer
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def proxy(
    request: pytest.FixtureRequest,
    gcp_project: str,
    monkeypatch: pytest.MonkeyPatch,
    anyio_backend: str,
) -> AsyncIterator[Proxy]:
    """A proxy before the emulator whose variable the test names as the parameter."""
    proxy = Proxy(os.environ[request.param])
    monkeypatch.setenv(request.param, await proxy.start())
    yield proxy
    await proxy.stop()


before_firestore = pytest.mark.parametrize("proxy", ["FIRESTORE_EMULATOR_HOST"], indirect=True)
before_pubsub = pytest.mark.parametrize("proxy", ["PUBSUB_EMULATOR_HOST"], indirect=True)


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


@pytest.fixture
async def queues(
    gcp_project: str, anyio_backend: str
) -> AsyncIterator[tuple[PubSubQueue, PubSubQueue]]:
    """The queue as two processes have it."""
    pair = (PubSubQueue(gcp_project), PubSubQueue(gcp_project))
    yield pair
    for queue in pair:
        await queue.close()


# Firestore


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


ARGUMENTS: dict[type, object] = {
    str: "jobs",
    int: 1,
    JobState: JobState.QUEUED,
    datetime: datetime(2030, 1, 1, tzinfo=UTC),
}
QUERIES = [
    function
    for _, function in inspect.getmembers(queries, inspect.isfunction)
    if function.__module__ == queries.__name__ and not function.__name__.startswith("_")
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
async def test_firestore_takes_every_query_of_the_control_plane(
    store: FirestoreStore, query: Callable[..., Query]
) -> None:
    hints = get_type_hints(query)
    asked = query(*(ARGUMENTS[hints[name]] for name in inspect.signature(query).parameters))
    assert (await store.find(asked)).documents == []
    assert await store.count(asked) == 0


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


# Pub/Sub


def bodies(deliveries: list[Delivery]) -> list[str]:
    return sorted(delivery.message.body for delivery in deliveries)


async def take(queue: PubSubQueue, subscription: Subscription, count: int) -> list[str]:
    """The bodies of `count` deliveries, acknowledged."""
    found: list[str] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            deliveries = await queue.pull([subscription], count, LONG)
            await queue.acknowledge(deliveries)
            found += bodies(deliveries)
    return sorted(found)


HIGH, LOW = Subscription("high", "pool"), Subscription("low", "pool")


async def test_what_comes_after_a_pull_has_ended_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([HIGH, LOW])
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await mine.publish("low", [Message("", "late")])
    assert await take(other, LOW, 1) == ["late"]


async def test_what_comes_after_a_pull_was_cancelled_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([LOW])
    pull = asyncio.ensure_future(mine.pull([LOW], 1, LONG))
    assert await mine.pull([LOW], 1, 0) == []
    pull.cancel()
    await asyncio.wait({pull})
    await mine.publish("low", [Message("", "1"), Message("", "2"), Message("", "3")])
    assert await take(other, LOW, 3) == ["1", "2", "3"]


async def test_what_is_beyond_the_limit_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([LOW])
    assert await mine.pull([LOW], 10, 0) == []
    await mine.publish("low", [Message("", str(n)) for n in range(5)])
    kept = await mine.pull([LOW], 1, LONG)
    assert len(kept) == 1
    rest = await take(other, LOW, 4)
    assert sorted(bodies(kept) + rest) == ["0", "1", "2", "3", "4"]
    await mine.acknowledge(kept)


async def test_what_a_lower_subscription_brought_beyond_the_limit_goes_to_others_at_once(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, other = queues
    await mine.subscribe([HIGH, LOW])
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await asyncio.gather(
        mine.publish("low", [Message("", "low")]), mine.publish("high", [Message("", "high")])
    )
    (first,) = await mine.pull([HIGH, LOW], 1, LONG)
    await mine.acknowledge([first])
    (rest,) = {"high", "low"} - {first.message.body}
    assert await take(other, HIGH if rest == "high" else LOW, 1) == [rest]


async def test_close_leaves_nothing_running(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    mine, _ = queues
    await mine.subscribe([HIGH, LOW])
    before = asyncio.all_tasks()
    assert await mine.pull([HIGH, LOW], 1, 0) == []
    await mine.close()
    assert asyncio.all_tasks() <= before
    assert await mine.pull([HIGH, LOW], 1, LONG) == []


@before_pubsub
async def test_a_copy_for_another_audience_is_forgotten(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    await mine.publish("low", [Message("other", "not mine")])
    assert await mine.pull([LOW], 1, 0) == []
    await mine.close()
    acknowledged = [
        pubsub.AcknowledgeRequest.deserialize(sent) for sent in proxy.sent("Acknowledge")
    ]
    assert [len(request.ack_ids) for request in acknowledged] == [1]
    assert proxy.sent("ModifyAckDeadline") == []


@before_pubsub
async def test_a_publish_is_one_request_a_thousand_messages(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    await mine.publish("low", [Message("", f"{n:04}") for n in range(1001)])
    sent = [pubsub.PublishRequest.deserialize(request) for request in proxy.sent("Publish")]
    assert [len(request.messages) for request in sent] == [1000, 1]
    assert await take(mine, LOW, 1001) == [f"{n:04}" for n in range(1001)]


@before_pubsub
async def test_a_publish_whose_confirmation_was_lost_goes_out_again(
    proxy: Proxy, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, _ = queues
    await mine.subscribe([LOW])
    proxy.lost_answers["Publish"] = 1
    await mine.publish("low", [Message("", "twice")])
    assert await take(mine, LOW, 2) == ["twice", "twice"]


@pytest.mark.parametrize("audience", ["", "Größer", "a/b", "goog", 'x" OR attributes:y', "a" * 300])
async def test_any_audience_has_a_subscription_of_its_own(
    queues: tuple[PubSubQueue, PubSubQueue], audience: str
) -> None:
    mine, _ = queues
    odd, plain = Subscription("low", audience), Subscription("low", "plain")
    await mine.subscribe([odd, plain])
    await mine.publish("low", [Message("plain", "1"), Message(audience, "2"), Message("", "3")])
    deliveries = await mine.pull([odd], 10, LONG)
    await mine.acknowledge(deliveries)
    assert Message(audience, "2") in [delivery.message for delivery in deliveries]
    assert "1" not in bodies(deliveries)


async def test_subscriptions_are_made_as_permits_and_control_hints_need_them(
    gcp_project: str, queues: tuple[PubSubQueue, PubSubQueue]
) -> None:
    mine, other = queues
    permits, control = Subscription("low", "pool"), Subscription("control", "worker-1")
    await asyncio.gather(mine.subscribe([permits, control]), other.subscribe([control, permits]))
    channel = grpc.aio.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"])
    client = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))

    async def made(id: str) -> pubsub.Subscription:
        return await client.get_subscription(
            subscription=f"projects/{gcp_project}/subscriptions/{id}"
        )

    permit = await made("xmcloud-low.pool")
    assert permit.topic == f"projects/{gcp_project}/topics/xmcloud-low"
    assert permit.filter == 'attributes.audience = "pool" OR NOT attributes:audience'
    assert permit.ack_deadline_seconds == 60
    assert permit.message_retention_duration == timedelta(days=7)
    assert "ttl" not in permit.expiration_policy
    assert "dead_letter_policy" not in permit
    assert "retry_policy" not in permit
    hint = await made("xmcloud-control.worker-1")
    assert hint.message_retention_duration == timedelta(hours=1)
    assert hint.expiration_policy.ttl == timedelta(days=1)
    await channel.close()


async def test_a_subscription_that_nobody_made_is_not_found(
    queues: tuple[PubSubQueue, PubSubQueue],
) -> None:
    with pytest.raises(NotFound, match="low/pool"):
        await queues[0].pull([LOW], 1, 0)


async def test_a_broker_that_does_not_answer_is_unavailable(
    gcp_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", NOBODY)
    queue = PubSubQueue(gcp_project, deadline=0.2)
    delivery = Delivery(LOW, Message("", "x"), "receipt")
    for call in (
        queue.publish("low", [Message("", "x")]),
        queue.subscribe([LOW]),
        queue.unsubscribe([LOW]),
        queue.acknowledge([delivery]),
        queue.release([delivery], 0),
        queue.pull([LOW], 1, LONG),
    ):
        with pytest.raises(Unavailable):
            await call
    await queue.close()


# Cloud Storage


async def test_the_bucket_is_made_once_on_the_emulator(gcp_project: str) -> None:
    bucket = f"made-{secrets.token_hex(8)}"
    pair = [GcsBlobs(bucket, gcp_project), GcsBlobs(bucket, gcp_project)]
    await asyncio.gather(*(blobs.put(f"{n}", b"x") for n, blobs in enumerate(pair)))
    for blobs in pair:
        assert await blobs.list("") == [("0", 1), ("1", 1)]
        await blobs.close()


async def test_a_blob_of_more_than_one_request(gcp_project: str) -> None:
    blobs = GcsBlobs(f"large-{secrets.token_hex(8)}", gcp_project)
    data = secrets.token_bytes(9 * 1024 * 1024)
    await blobs.put("large", data)
    assert await blobs.get("large") == data
    assert await blobs.get("large", 9 * 1024 * 1024 - 3) == data[-3:]
    await blobs.close()


async def test_a_bucket_that_does_not_answer_is_unavailable(
    gcp_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{NOBODY}")
    blobs = GcsBlobs("nobody", gcp_project, deadline=0.2)
    for call in (blobs.put("a", b""), blobs.get("a"), blobs.list(""), blobs.delete("")):
        with pytest.raises(Unavailable):
            await call
    await blobs.close()
