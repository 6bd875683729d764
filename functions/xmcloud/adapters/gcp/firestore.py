"""Documents in Firestore, one RPC a call."""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc
from google.api_core import exceptions
from google.api_core.retry import AsyncRetry, if_exception_type
from google.cloud.firestore_v1 import types
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import (
    FirestoreGrpcAsyncIOTransport,
)

from xmcloud.adapters import Observe, unobserved
from xmcloud.adapters.gcp import firestore_codec as codec
from xmcloud.adapters.gcp.failures import TRANSIENT, translated
from xmcloud.core import cursors
from xmcloud.core.errors import TooLarge
from xmcloud.core.indexes import in_order_of, require_index
from xmcloud.core.ports import (
    COMMIT_LIMIT,
    WRITES_LIMIT,
    Document,
    Page,
    PreconditionFailed,
    Query,
    Version,
    Write,
)

_CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
_COUNTED_PER_READ = 1000
_CONTENTION = AsyncRetry(
    predicate=if_exception_type(exceptions.Aborted),
    initial=0.02,
    maximum=0.5,
    multiplier=2.0,
    timeout=2.0,
)
_LOST = (exceptions.AlreadyExists, exceptions.FailedPrecondition, exceptions.RetryError)
_LOST_CODES = {
    code.value[0]
    for code in (
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.NOT_FOUND,
    )
}
_RETRIED_CODES = {
    code.value[0]
    for code in (
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    )
}
_OK = grpc.StatusCode.OK.value[0]
_T = TypeVar("_T")


class FirestoreStore:
    """The `Store` port on Firestore.

    A call is tried again, with jitter, for up to `deadline` seconds, then raises `Unavailable`.
    That is safe for writes too: all of them have preconditions, so one whose first try
    succeeded without an answer fails on the second, as `PreconditionFailed` (or None from
    `apply`). Whoever gets that loads again, and then finds its own change.

    A document replaced by an equal one keeps its version.

    `observe` is told ("read" | "write", n) as Firestore bills them.
    """

    def __init__(
        self,
        project: str,
        observe: Observe = unobserved,
        *,
        deadline: float = 10.0,
    ) -> None:
        self._database = f"projects/{project}/databases/(default)"
        self._documents = f"{self._database}/documents"
        self._observe = observe
        self._deadline = deadline
        metadata = [("google-cloud-resource-prefix", self._database)]
        if os.environ.get("FIRESTORE_EMULATOR_HOST"):
            metadata.append(("authorization", "Bearer owner"))
        self._options: dict[str, Any] = {
            "retry": None,
            "timeout": deadline,
            "metadata": metadata,
        }
        self._api: FirestoreAsyncClient | None = None

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        if not ids:
            return []
        unique = list(dict.fromkeys(ids))
        request = _request(
            types.BatchGetDocumentsRequest,
            database=self._database,
            documents=[f"{self._documents}/{collection}/{id}" for id in unique],
        )
        found = {
            document.id: document
            for answer in await self._stream("batch_get_documents", request)
            if answer.HasField("found")
            for document in [codec.document(answer.found)]
        }
        self._observe("read", len(unique))
        return [found.get(id) for id in ids]

    async def find(self, query: Query) -> Page:
        """Asks for one document more than the page has, to know whether any follow."""
        require_index(query)
        request = _request(
            types.RunQueryRequest,
            parent=self._documents,
            structured_query=codec.page(self._documents, query),
        )
        answers = await self._stream("run_query", request)
        documents = [codec.document(answer.document) for answer in answers if answer.document.name]
        self._observe("read", max(1, len(documents)))
        page = documents[: query.limit]
        more = len(documents) > query.limit
        return Page(page, cursors.encode(query, page[-1]) if more else None)

    async def count(self, query: Query) -> int:
        require_index(query)
        found = await self._aggregated(query, {"n": {"count": {}}})
        return int(found["n"].integer_value)

    async def total(self, query: Query, field: str) -> float:
        require_index(in_order_of(query, field))
        summed = {"sum": {"field": codec.field(field)}}
        found = await self._aggregated(query, {"n": {"count": {}}, "total": summed})
        total = found["total"]
        return float(total.integer_value or total.double_value)

    async def _aggregated(self, query: Query, what: Mapping[str, Any]) -> Any:
        """The values by alias; `n` counts, for the bill."""
        aggregation = types.StructuredAggregationQuery.pb()(
            structured_query=codec.everything(query),
            aggregations=[{"alias": alias, **each} for alias, each in what.items()],
        )
        request = _request(
            types.RunAggregationQueryRequest,
            parent=self._documents,
            structured_aggregation_query=aggregation,
        )
        (answer,) = await self._stream("run_aggregation_query", request)
        found = answer.result.aggregate_fields
        self._observe("read", max(1, -(-found["n"].integer_value // _COUNTED_PER_READ)))
        return found

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        """Raises `InvalidInput` and `TooLarge` too, before anything is sent."""
        changes = self._changes(writes)
        if not changes:
            return []
        size = sum(change.ByteSize() for change in changes)
        if size > COMMIT_LIMIT:
            raise TooLarge("A commit", size, COMMIT_LIMIT)
        request = _request(types.CommitRequest, database=self._database, writes=changes)
        lost: tuple[type[Exception], ...] = _LOST
        if any(write.version for write in writes):
            lost = (*lost, exceptions.NotFound)
        try:
            answer = await _CONTENTION(self._call)("commit", request)
        except lost as error:
            raise PreconditionFailed(str(error)) from error
        self._observe("write", len(writes))
        return [codec.version(result.update_time) for result in answer.write_results]

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        """Raises `InvalidInput` and `TooLarge` too, before anything is sent."""
        versions: list[Version | None] = []
        for batch in _batches(self._changes(writes)):
            written = await self._apply_batch(batch)
            self._observe("write", sum(version is not None for version in written))
            versions += written
        return versions

    async def _apply_batch(self, changes: Sequence[Any]) -> list[Version | None]:
        versions: dict[int, Version | None] = {}

        async def write_the_rest() -> None:
            rest = [i for i in range(len(changes)) if i not in versions]
            request = _request(
                types.BatchWriteRequest,
                database=self._database,
                writes=[changes[i] for i in rest],
            )
            answer = await self._call("batch_write", request)
            for i, status, result in zip(rest, answer.status, answer.write_results, strict=True):
                if status.code == _OK:
                    versions[i] = codec.version(result.update_time)
                elif status.code in _LOST_CODES:
                    versions[i] = None
                elif status.code not in _RETRIED_CODES:
                    raise exceptions.from_grpc_status(status.code, status.message)
            if len(versions) < len(changes):
                raise exceptions.Aborted("some writes met others")

        with translated("Firestore"):
            await _CONTENTION(write_the_rest)()
        return [versions[i] for i in range(len(changes))]

    async def close(self) -> None:
        if self._api is not None:
            await self._api.transport.close()

    async def _call(self, method: str, request: Any) -> Any:
        async def once() -> Any:
            answer = await getattr(self._client(), method)(request, **self._options)
            return type(answer).pb(answer)

        return await self._retrying(once)

    async def _stream(self, method: str, request: Any) -> list[Any]:
        async def once() -> list[Any]:
            stream = await getattr(self._client(), method)(request, **self._options)
            return [type(answer).pb(answer) async for answer in stream]

        return await self._retrying(once)

    async def _retrying(self, call: Callable[[], Awaitable[_T]]) -> _T:
        retry = AsyncRetry(
            predicate=if_exception_type(*TRANSIENT),
            initial=0.05,
            maximum=2.0,
            multiplier=2.0,
            timeout=self._deadline,
        )
        with translated("Firestore"):
            return await retry(call)()

    def _client(self) -> FirestoreAsyncClient:
        if self._api is None:
            self._api = FirestoreAsyncClient(
                transport=FirestoreGrpcAsyncIOTransport(channel=_channel())
            )
        return self._api

    def _changes(self, writes: Sequence[Write]) -> list[Any]:
        if len(writes) > WRITES_LIMIT or len({(w.collection, w.id) for w in writes}) < len(writes):
            raise ValueError(f"at most {WRITES_LIMIT} writes, each document once")
        return [codec.change(self._documents, write) for write in writes]


def _channel() -> grpc.aio.Channel:
    emulator = os.environ.get("FIRESTORE_EMULATOR_HOST")
    if emulator:
        return grpc.aio.insecure_channel(emulator, options=_CHANNEL_OPTIONS)
    return FirestoreGrpcAsyncIOTransport.create_channel(options=_CHANNEL_OPTIONS)


def _request(kind: Any, **fields: Any) -> Any:
    return kind.wrap(kind.pb()(**fields))


def _batches(changes: Sequence[Any]) -> Iterator[list[Any]]:
    """Slices that each fit into one request."""
    batch: list[Any] = []
    size = 0
    for change in changes:
        size += change.ByteSize()
        if size > COMMIT_LIMIT:
            yield batch
            batch, size = [], change.ByteSize()
        batch.append(change)
    if batch:
        yield batch
