"""Documents as JSON text, and values as SQL parameters."""

import json
import math
from pathlib import Path

from pydantic import JsonValue

from xmcloud.core.errors import CorruptStore, InvalidInput, TooLarge
from xmcloud.core.ports import JsonObject

DOCUMENT_LIMIT = 1024 * 1024
"""Bytes."""

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(collection: str, id: str, data: JsonObject) -> str:
    """Raises `InvalidInput` for what Firestore could not keep, and `TooLarge`."""
    name = f"{collection}/{id}"
    _check(name, data)
    text = _encoder.encode(data)
    size = len(_utf8(name, text))
    if size > DOCUMENT_LIMIT:
        raise TooLarge(name, size, DOCUMENT_LIMIT)
    return text


def decode(path: Path, text: str) -> JsonObject:
    """Raises `CorruptStore`."""
    try:
        data: JsonObject = json.loads(text)
    except ValueError as error:
        raise CorruptStore(str(path), f"a document is no longer JSON ({error})") from error
    return data


def parameter(name: str, value: str | float | bool) -> tuple[str, object]:
    """A placeholder and its value, equal to what the column of such a field holds.

    A float goes through SQLite's own parser as the column did, which may round the last bit its
    own way. Raises `InvalidInput`.
    """
    match value:
        case bool():
            return "?", b"\1" if value else b"\0"
        case float():
            _check_float(name, value)
            return "json_extract(?, '$')", repr(value)
        case int():
            _check_integer(name, value)
            return "?", value
    _utf8(name, value)
    return "?", value


def _check(name: str, value: JsonValue) -> None:
    """Raises `InvalidInput` for an array in an array, a long integer, NaN and infinity."""
    match value:
        case int():
            _check_integer(name, value)
        case float():
            _check_float(name, value)
        case dict():
            for key, item in value.items():
                _check(f"{name}.{key}", item)
        case list():
            for item in value:
                if isinstance(item, list):
                    raise InvalidInput(name, value, "an array that holds no arrays")
                _check(name, item)


def _check_integer(name: str, value: int) -> None:
    if not -(2**63) <= value < 2**63:
        raise InvalidInput(name, value, "an integer of at most 64 bits")


def _check_float(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise InvalidInput(name, value, "a finite number")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(name, text, "well-formed text") from error
