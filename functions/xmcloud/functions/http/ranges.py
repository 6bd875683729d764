"""Requests for a part of something (RFC 9110, section 14)."""

import re
from dataclasses import dataclass
from typing import Self

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class Unsatisfiable(Exception):
    """The range lies beyond the end."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start` to `end` (exclusive) of `size`; there is at least one."""

    start: int
    end: int
    size: int

    @classmethod
    def parse(cls, header: str | None, size: int, limit: int) -> Self | None:
        """At most `limit` bytes from where it begins, which an answer may do.

        None when the whole is to be answered: for no range, several, something else, and for
        what is empty. Raises `Unsatisfiable`.
        """
        found = _ONE_RANGE.fullmatch(header or "")
        if found is None or size == 0 or found[1] == found[2] == "":
            return None
        if found[1]:
            start = int(found[1])
            end = int(found[2]) + 1 if found[2] else max(size, start + 1)
            if end <= start:
                return None
        else:
            start, end = max(0, size - int(found[2])), size
        if start >= size:
            raise Unsatisfiable
        return cls(start, min(end, size, start + limit), size)

    @property
    def content_range(self) -> str:
        return f"bytes {self.start}-{self.end - 1}/{self.size}"
