"""Names and ids, checked once, at the edge."""

import hashlib
import secrets
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH = 16


def _printable(text: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ValueError("must hold no control characters and no unpaired surrogates")
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def unicode(text: str) -> str:
    """The text, if a process can receive it. Raises `ValueError`."""
    if "\0" in text:
        raise ValueError("must hold no NUL character: no process can receive it")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ValueError("must be valid Unicode, without unpaired surrogates")
    return text


Title = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_printable)]
"""What people call things: any printable Unicode."""

Text = Annotated[str, AfterValidator(unicode)]
"""What a process receives: any Unicode without NUL."""

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$")]
"""What becomes part of a cloud resource's name: queues, pools, workers."""

Id = Annotated[str, StringConstraints(pattern=r"^[a-z2-7]{16}$")]
"""An id made here: 80 bits, random or a digest, so that neighbours are not neighbours on disk."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of a blob, in hexadecimal."""

TraceParent = Annotated[
    str, StringConstraints(pattern=r"^(?:[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?$")
]
"""Of W3C trace context, as the header `traceparent` carries it; '' where there is none."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_]\w*$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(_printable)]
"""An idempotency key, chosen by the client."""


def _id(raw: bytes) -> str:
    number = int.from_bytes(raw[:10], "big")
    return "".join(_BASE32[(number >> shift) & 31] for shift in range(75, -1, -5))


def random_id() -> str:
    """A new id from the system's randomness."""
    return _id(secrets.token_bytes(10))


def job_id(experiment: str, key: str, index: int) -> str:
    """The id of a job by the idempotency key of its batch and its place there."""
    return derived_id("job", experiment, key, index)


def derived_id(*parts: str | int) -> str:
    """The id that the same parts always give: creation by key is idempotent by construction."""
    return _id(hashlib.sha256("\0".join(map(str, parts)).encode()).digest())
