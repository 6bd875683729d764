"""Documents and queries as Firestore's protocol buffers.

The bare messages: their proto-plus wrappers cost more than the rest of a call.
"""

import math
from typing import Any

from google.cloud.firestore_v1 import types
from google.cloud.firestore_v1.field_path import FieldPath
from pydantic import JsonValue

from xmcloud.core import cursors
from xmcloud.core.base import sortable
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.indexes import time_to_live
from xmcloud.core.ports import Document, JsonObject, Operator, Query, Version, Write

DOCUMENT_LIMIT = 1024 * 1024
"""Bytes."""
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

_Value = types.Value.pb()
_Document = types.Document.pb()
_Write = types.Write.pb()
_Query = types.StructuredQuery.pb()


def change(root: str, write: Write) -> Any:
    """The write below `root`, with its precondition. Raises `InvalidInput` and `TooLarge`."""
    precondition: dict[str, Any] = {"exists": False}
    if write.version is not None:
        seconds, nanos = write.version.split(".")
        precondition = {"update_time": {"seconds": int(seconds), "nanos": int(nanos)}}
    where = f"{write.collection}/{write.id}"
    document = _Document(
        name=f"{root}/{where}",
        fields=_fields(write.collection, where, write.data),
    )
    if document.ByteSize() > DOCUMENT_LIMIT:
        raise TooLarge(where, document.ByteSize(), DOCUMENT_LIMIT)
    return _Write(update=document, current_document=precondition)


def _fields(collection: str, where: str, data: JsonObject) -> dict[str, Any]:
    """Of a document; Firestore takes nothing but a timestamp for the end of its time to live."""
    fields = {name: _value(f"{where}.{name}", each) for name, each in data.items()}
    ends = time_to_live(collection)
    if ends in data:
        timestamp = _Value()
        timestamp.timestamp_value.FromJsonString(str(data[ends]))
        fields[ends] = timestamp
    return fields


def document(stored: Any) -> Document:
    return Document(
        stored.name.rpartition("/")[2],
        {name: _json(value) for name, value in stored.fields.items()},
        version(stored.update_time),
    )


def version(update_time: Any) -> Version:
    return f"{update_time.seconds}.{update_time.nanos:09}"


def page(root: str, query: Query) -> Any:
    """The query for a page and one document more. Raises `InvalidInput` for a bad cursor."""
    order = [(field(name), _DIRECTIONS[direction]) for name, direction in query.order]
    order.append(({"field_path": "__name__"}, _DIRECTIONS[query.id_direction]))
    structured = _Query(
        **_matching(query),
        order_by=[{"field": field, "direction": direction} for field, direction in order],
        limit={"value": query.limit + 1},
    )
    position = cursors.decode(query)
    if position is not None:
        values, id = position
        structured.start_at.values.extend([_value("cursor", value) for value in values])
        structured.start_at.values.append(_Value(reference_value=f"{root}/{query.collection}/{id}"))
        structured.start_at.before = False
    return structured


def everything(query: Query) -> Any:
    """The query for all that matches, in no order."""
    return _Query(**_matching(query))


def _matching(query: Query) -> dict[str, Any]:
    filters = [
        {
            "field_filter": {
                "field": field(item.field),
                "op": _OPERATORS[item.operator],
                "value": _value(item.field, item.value),
            }
        }
        for item in query.where
    ]
    selection: dict[str, Any] = {"from_": [{"collection_id": query.collection}]}
    if filters:
        selection["where"] = {"composite_filter": {"op": "AND", "filters": filters}}
    return selection


def field(name: str) -> dict[str, str]:
    return {"field_path": FieldPath(name).to_api_repr()}


def _value(name: str, value: JsonValue) -> Any:
    """Raises `InvalidInput`, naming `name`, for what Firestore cannot keep."""
    match value:
        case None:
            return _Value(null_value=0)
        case bool():
            return _Value(boolean_value=value)
        case int():
            return _scalar(name, "integer_value", value, "an integer of at most 64 bits")
        case float():
            if not math.isfinite(value):
                raise InvalidInput(name, value, "a finite number")
            return _Value(double_value=value)
        case str():
            return _scalar(name, "string_value", value, "well-formed text")
        case list():
            if any(isinstance(item, list) for item in value):
                raise InvalidInput(name, value, "an array that holds no arrays")
            return _Value(array_value={"values": [_value(name, item) for item in value]})
        case dict():
            fields = {key: _value(name, item) for key, item in value.items()}
            return _Value(map_value={"fields": fields})


def _scalar(name: str, kind: str, value: JsonValue, expected: str) -> Any:
    try:
        return _Value(**{kind: value})
    except ValueError as error:
        raise InvalidInput(name, value, expected) from error


def _json(value: Any) -> JsonValue:
    kind = value.WhichOneof("value_type")
    match kind:
        case "null_value":
            return None
        case "array_value":
            return [_json(item) for item in value.array_value.values]
        case "map_value":
            return {name: _json(item) for name, item in value.map_value.fields.items()}
        case "timestamp_value":
            return sortable(value.timestamp_value.ToDatetime())
        case _:
            plain: JsonValue = getattr(value, kind)
            return plain
