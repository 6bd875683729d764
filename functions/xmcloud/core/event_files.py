"""Scalars in the event files of TensorBoard: records of TensorFlow around protocol buffers.

Standard library alone; checksums are not looked at, and a record that is cut off ends the file.
"""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmcloud.core.series import Point

MARK = "events.out.tfevents."
"""What the name of an event file begins with."""

_LARGEST = 64 * 1024 * 1024
"""Bytes of a record that is looked at: none of scalars alone comes near."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOATS = {1: "<f", 2: "<d"}
"""What a number is packed as, by the tensor's type."""


class _Field(NamedTuple):
    number: int
    value: int
    data: bytes


def scalars(read: Callable[[int], bytes]) -> Iterator[Point]:
    """Of the file that `read` reads on: the tag is the series. Raises what `read` does."""
    for record in _records(read):
        try:
            yield from _of_event(record)
        except (IndexError, struct.error, UnicodeDecodeError):
            return


def _records(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while len(head := read(12)) == 12:
        (size,) = struct.unpack_from("<Q", head)
        if size > _LARGEST:
            return
        body = read(size + 4)
        if len(body) < size + 4:
            return
        yield body[:size]


def _of_event(event: bytes) -> Iterator[Point]:
    at, step, summaries = 0.0, 0, []
    for field in _fields(event):
        if field.number == 1:
            (at,) = struct.unpack("<d", field.data)
        elif field.number == 2:
            step = _signed(field.value)
        elif field.number == 5:
            summaries.append(field.data)
    for summary in summaries:
        for field in _fields(summary):
            if field.number == 1 and (found := _of_value(field.data)) is not None:
                yield found[0], step, found[1], at


def _of_value(message: bytes) -> tuple[str, float] | None:
    """Tag and number of a summary's value that is one."""
    tag, number = "", None
    for field in _fields(message):
        if field.number == 1:
            tag = field.data.decode()
        elif field.number == 2:
            (number,) = struct.unpack("<f", field.data)
        elif field.number == 8:
            number = _of_tensor(field.data)
    return None if number is None else (tag, number)


def _of_tensor(message: bytes) -> float | None:
    """The number of a tensor without dimensions."""
    kind, shape, content = 0, b"", b""
    for field in _fields(message):
        if field.number == 1:
            kind = field.value
        elif field.number == 2:
            shape = field.data
        elif field.number in (4, 5, 6):
            content = field.data
    form = _FLOATS.get(kind)
    if form is None or shape or len(content) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, content)[0])


def _fields(message: bytes) -> Iterator[_Field]:
    """Raises IndexError for what is cut off, or of a kind that is used no more."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, value, size = key & 7, 0, 0
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _BYTES:
            size, at = _varint(message, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(message) + 1)
        if at + size > len(message):
            raise IndexError(at)
        yield _Field(key >> 3, value, message[at : at + size])
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
