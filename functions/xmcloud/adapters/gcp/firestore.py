"""Documents in Firestore, one RPC a call."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
from google.api_core import exceptions
from google.api_core.retry import AsyncRetry, if_exception_type
from google.cloud.firestore_v1 import types
from google.cloud.firestore_v1.field_path import FieldPath
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import (
    FirestoreGrpcAsyncIOTransport,
)
from pydantic import JsonValue

from xmcloud.adapters.gcp.failures import TRANSIENT, translated
from xmcloud.core import cursors
from xmcloud.core.indexes import require_index
from xmcloud.core.ports import (
    Document,
    JsonObject,
    Operator,
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
_READS_BILLED_PER_COUNTED = 1000
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
_OPERATORS: dict[Operator, int] = {
    "==": types.StructuredQuery.FieldFilter.Operator.EQUAL,
    "<": types.StructuredQuery.FieldFilter.Operator.LESS_THAN,
    "<=": types.StructuredQuery.FieldFilter.Operator.LESS_THAN_OR_EQUAL,
    ">": types.StructuredQuery.FieldFilter.Operator.GREATER_THAN,
    ">=": types.StructuredQuery.FieldFilter.Operator.GREATER_THAN_OR_EQUAL,
}
_DIRECTIONS = {
    "asc": types.StructuredQuery.Direction.ASCENDING,
    "desc": types.StructuredQuery.Direction.DESCENDING,
}

_T = TypeVar("_T")

# The bare protocol buffers: their proto-plus wrappers cost more than the rest of a call.
_Value = types.Value.pb()
_Document = types.Document.pb()
_Write = types.Write.pb()
_Query = types.StructuredQuery.pb()


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
        observe: Callable[[str, int], None] | None = None,
        *,
        deadline: float = 10.0,
    ) -> None:
        self._database = f"projects/{project}/databases/(default)"
        self._documents = f"{self._database}/documents"
        self._observe = observe or (lambda kind, count: None)
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
            documents=[self._name(collection, id) for id in unique],
        )
        found = {
            document.id: document
            for answer in await self._stream("batch_get_documents", request)
            if answer.HasField("found")
            for document in [_document(answer.found)]
        }
        self._observe("read", len(unique))
        return [found.get(id) for id in ids]

    async def find(self, query: Query) -> Page:
        """Asks for one document more than the page has, to know whether any follow."""
        require_index(query)
        request = _request(
            types.RunQueryRequest, parent=self._documents, structured_query=self._structured(query)
        )
        answers = await self._stream("run_query", request)
        documents = [_document(answer.document) for answer in answers if answer.document.name]
        self._observe("read", max(1, len(documents)))
        page = documents[: query.limit]
        more = len(documents) > query.limit
        return Page(page, cursors.encode(query, page[-1]) if more else None)

    async def count(self, query: Query) -> int:
        require_index(query)
        aggregation = types.StructuredAggregationQuery.pb()(
            structured_query=_Query(**_selection(query)),
            aggregations=[{"alias": "n", "count": {}}],
        )
        request = _request(
            types.RunAggregationQueryRequest,
            parent=self._documents,
            structured_aggregation_query=aggregation,
        )
        answers = await self._stream("run_aggregation_query", request)
        total: int = sum(answer.result.aggregate_fields["n"].integer_value for answer in answers)
        self._observe("read", max(1, -(-total // _READS_BILLED_PER_COUNTED)))
        return total

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        if not writes:
            return []
        request = _request(
            types.CommitRequest,
            database=self._database,
            writes=[self._write(write) for write in writes],
        )
        lost: tuple[type[Exception], ...] = _LOST
        if any(write.version for write in writes):
            lost = (*lost, exceptions.NotFound)
        try:
            answer = await _CONTENTION(self._call)("commit", request)
        except lost as error:
            raise PreconditionFailed(str(error)) from error
        self._observe("write", len(writes))
        return [_version(result.update_time) for result in answer.write_results]

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        versions: dict[int, Version | None] = {}

        async def write_the_rest() -> None:
            rest = [i for i in range(len(writes)) if i not in versions]
            request = _request(
                types.BatchWriteRequest,
                database=self._database,
                writes=[self._write(writes[i]) for i in rest],
            )
            answer = await self._call("batch_write", request)
            for i, status, result in zip(rest, answer.status, answer.write_results, strict=True):
                if status.code == _OK:
                    versions[i] = _version(result.update_time)
                elif status.code in _LOST_CODES:
                    versions[i] = None
                elif status.code not in _RETRIED_CODES:
                    raise exceptions.from_grpc_status(status.code, status.message)
            if len(versions) < len(writes):
                raise exceptions.Aborted("some writes met others")

        if writes:
            with translated("Firestore"):
                await _CONTENTION(write_the_rest)()
        self._observe("write", sum(version is not None for version in versions.values()))
        return [versions[i] for i in range(len(writes))]

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

    def _name(self, collection: str, id: str) -> str:
        return f"{self._documents}/{collection}/{id}"

    def _write(self, write: Write) -> Any:
        precondition: dict[str, Any] = {"exists": False}
        if write.version is not None:
            seconds, nanos = write.version.split(".")
            precondition = {"update_time": {"seconds": int(seconds), "nanos": int(nanos)}}
        return _Write(
            update=_Document(name=self._name(write.collection, write.id), fields=_map(write.data)),
            current_document=precondition,
        )

    def _structured(self, query: Query) -> Any:
        order = [(_field(name), _DIRECTIONS[direction]) for name, direction in query.order]
        order.append(({"field_path": "__name__"}, _DIRECTIONS["asc"]))
        structured = _Query(
            **_selection(query),
            order_by=[{"field": field, "direction": direction} for field, direction in order],
            limit={"value": query.limit + 1},
        )
        position = cursors.decode(query)
        if position is not None:
            values, id = position
            last = _Value(reference_value=self._name(query.collection, id))
            structured.start_at.values.extend([*map(_value, values), last])
            structured.start_at.before = False
        return structured


def _channel() -> grpc.aio.Channel:
    emulator = os.environ.get("FIRESTORE_EMULATOR_HOST")
    if emulator:
        return grpc.aio.insecure_channel(emulator, options=_CHANNEL_OPTIONS)
    return FirestoreGrpcAsyncIOTransport.create_channel(options=_CHANNEL_OPTIONS)


def _request(kind: Any, **fields: Any) -> Any:
    return kind.wrap(kind.pb()(**fields))


def _selection(query: Query) -> dict[str, Any]:
    """The part of a structured query that decides which documents match."""
    filters = [
        {
            "field_filter": {
                "field": _field(item.field),
                "op": _OPERATORS[item.operator],
                "value": _value(item.value),
            }
        }
        for item in query.where
    ]
    selection: dict[str, Any] = {"from_": [{"collection_id": query.collection}]}
    if filters:
        selection["where"] = {"composite_filter": {"op": "AND", "filters": filters}}
    return selection


def _field(name: str) -> dict[str, str]:
    return {"field_path": FieldPath(name).to_api_repr()}


def _document(document: Any) -> Document:
    return Document(
        document.name.rpartition("/")[2],
        {name: _json(value) for name, value in document.fields.items()},
        _version(document.update_time),
    )


def _version(update_time: Any) -> Version:
    return f"{update_time.seconds}.{update_time.nanos:09}"


def _map(data: JsonObject) -> dict[str, Any]:
    return {name: _value(value) for name, value in data.items()}


def _value(value: JsonValue) -> Any:
    match value:
        case None:
            return _Value(null_value=0)
        case bool():
            return _Value(boolean_value=value)
        case int():
            return _Value(integer_value=value)
        case float():
            return _Value(double_value=value)
        case str():
            return _Value(string_value=value)
        case list():
            return _Value(array_value={"values": [_value(item) for item in value]})
        case dict():
            return _Value(map_value={"fields": _map(value)})


def _json(value: Any) -> JsonValue:
    kind = value.WhichOneof("value_type")
    match kind:
        case "null_value":
            return None
        case "array_value":
            return [_json(item) for item in value.array_value.values]
        case "map_value":
            return {name: _json(item) for name, item in value.map_value.fields.items()}
        case _:
            plain: JsonValue = getattr(value, kind)
            return plain
