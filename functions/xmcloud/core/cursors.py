"""Page cursors: opaque to callers, the position after the last document to adapters."""

import base64
import binascii
import json

from xmcloud.core.errors import InvalidInput
from xmcloud.core.ports import Document, Query

Position = tuple[list[str | int | float | bool], str]


def encode(query: Query, document: Document) -> str:
    """The cursor after `document` in the order of `query`."""
    position = [[document.data[name] for name, _ in query.order], document.id]
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode(query: Query) -> Position | None:
    """The values of the order's fields and the id to continue after. Raises `InvalidInput`."""
    if query.after is None:
        return None
    try:
        padded = query.after.encode("ascii") + b"=" * (-len(query.after) % 4)
        values, id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        scalars = isinstance(values, list) and all(
            isinstance(value, (str, int, float, bool)) for value in values
        )
        if not (scalars and isinstance(id, str) and id and len(values) == len(query.order)):
            raise ValueError
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidInput("cursor", query.after, "a cursor of an earlier page") from error
    return values, id
