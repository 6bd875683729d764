"""Page cursors: opaque to callers, the position after the last document to adapters."""

import base64
import json
import math
import re

from xmcloud.core.errors import InvalidInput
from xmcloud.core.ports import Document, Query

_SURROGATE = re.compile("[\ud800-\udfff]")
_ID = re.compile("[^/\ud800-\udfff]+")

Position = tuple[list[str | int | float | bool], str]


def encode(query: Query, document: Document) -> str:
    """The cursor after `document` in the order of `query`."""
    position = [[document.data[name] for name, _ in query.order], document.id]
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def _storable(value: object) -> bool:
    """A scalar that every database takes."""
    match value:
        case str():
            return not _SURROGATE.search(value)
        case int():
            return -(2**63) <= value < 2**63
        case float():
            return math.isfinite(value)
    return False


def decode(query: Query) -> Position | None:
    """The values of the order's fields and the id to continue after. Raises `InvalidInput`."""
    if query.after is None:
        return None
    try:
        padded = query.after.encode("ascii") + b"=" * (-len(query.after) % 4)
        values, id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if not (isinstance(values, list) and len(values) == len(query.order)):
            raise ValueError
        if not (all(map(_storable, values)) and isinstance(id, str) and _ID.fullmatch(id)):
            raise ValueError
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput("cursor", query.after, "a cursor of an earlier page") from error
    return values, id
