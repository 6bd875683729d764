"""Values of secrets are masked in whatever leaves this machine."""

import base64
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

from pydantic import JsonValue

from xmcloud.core.secrets import SHORTEST

_BLOCK = 256
"""A longer text is looked for in blocks of so many bytes: no more of a log is ever held back."""

_LINE_SHORTEST = 8
_WRAPPED = (64, 76)
"""Characters in a line of base64, as tools write it."""

_VISIBLE = re.compile(rb"[^\r\n]")


class Redactor:
    """Finds the values, and what programs commonly write in place of them.

    Those are their lines, and all of it in base64, hexadecimal, URLs, JSON and Python. A mask is as
    long as what it hides, and keeps the ends of lines. Whether a byte is masked depends on the
    bytes around it alone, at most `reach` on each side.
    """

    def __init__(self, values: Iterable[str]) -> None:
        texts = {text for value in values for text in _written(value)}
        # The ends of lines are not masked, so that a block needs none at its own ends.
        blocks = {block.strip(b"\r\n") for text in texts for block in _blocks(text)}
        self._blocks = sorted(block for block in blocks if len(block) >= SHORTEST)
        self.reach = max(map(len, self._blocks), default=1) - 1

    def mask(self, data: bytes) -> bytes:
        """The same number of bytes."""
        spans = sorted(span for block in self._blocks for span in _occurrences(block, data))
        if not spans:
            return data
        masked, at = bytearray(), 0
        for start, end in spans:
            if end > at:
                masked += data[at:start] + _stars(data[max(start, at) : end])
                at = end
        return bytes(masked + data[at:])

    def open_from(self, data: bytes) -> int:
        """Where the end of `data` begins that could be the beginning of a value."""
        for start in range(max(0, len(data) - self.reach), len(data)):
            tail = data[start:]
            after = bisect_right(self._blocks, tail)  # longer ones that begin so follow it
            if after < len(self._blocks) and self._blocks[after].startswith(tail):
                return start
        return len(data)

    def text(self, text: str) -> str:
        """What is told to people."""
        return self.mask(text.encode(errors="surrogatepass")).decode(errors="replace")

    def json(self, value: JsonValue) -> JsonValue:
        """The same with its texts masked, those of numbers too."""
        if isinstance(value, dict):
            return {self.text(name): self.json(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.json(each) for each in value]
        text = value if isinstance(value, str) else json.dumps(value)
        masked = self.text(text)
        return value if masked == text else masked


class Blindfold(Redactor):
    """Knows that there are values, and not which: nothing that a job wrote is told."""

    def __init__(self) -> None:
        super().__init__(())

    def mask(self, data: bytes) -> bytes:
        return _stars(data)

    def text(self, text: str) -> str:
        """The first line, in which the worker says how it ended."""
        return text.partition("\n")[0]

    def json(self, value: JsonValue) -> JsonValue:
        return {} if isinstance(value, dict) else None


NOTHING_SECRET = Redactor(())
_UNKNOWN = Blindfold()


class JobLog:
    """The log of an attempt, as it may leave this machine; offsets are those of the file.

    Methods raise OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole = False
        """Nothing writes to it any more."""
        self._redactor: Redactor | None = NOTHING_SECRET
        self._told_before = 0
        self._looked_at = 0
        self._size = 0

    def hold(self) -> None:
        """There is nothing to read, until it is known what to mask."""
        self._redactor = None

    def mask_with(self, redactor: Redactor, told: int = 0) -> None:
        """From now on; of what is new after the first `told` bytes, if the values are unknown."""
        self._redactor, self._looked_at, self._size = redactor, 0, 0
        self._told_before = told if isinstance(redactor, Blindfold) else 0

    def size(self) -> int:
        """Bytes that can be read: what may be the beginning of a value waits for more."""
        if self._redactor is None:
            return 0
        size = self._file_size()
        if self.whole or not self._redactor.reach:
            return size
        if size != self._looked_at:
            begin = max(0, size - self._redactor.reach)
            tail = self._bytes(begin, size)
            self._looked_at, self._size = size, begin + self._redactor.open_from(tail)
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        """Up to so many bytes, masked."""
        redactor, end = self._redactor, min(offset + length, self.size())
        if redactor is None or end <= offset:
            return b""
        if offset < self._told_before:
            return self._bytes(offset, min(end, self._told_before))
        begin = max(0, offset - redactor.reach)
        data = redactor.mask(self._bytes(begin, end + redactor.reach))
        return data[offset - begin : end - begin]

    def last(self, length: int) -> bytes:
        """The last bytes, of a log that is whole or not, masked."""
        if self._redactor is None:
            return b""
        size = self._file_size()
        begin = max(0, size - length - self._redactor.reach)
        return self._redactor.mask(self._bytes(begin, size))[-length:]

    def text(self, text: str) -> str:
        """What else the worker tells of the job."""
        return (self._redactor or _UNKNOWN).text(text)

    def json(self, value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        masked = (self._redactor or _UNKNOWN).json(dict(value))
        assert isinstance(masked, dict)
        return masked

    def _bytes(self, start: int, end: int) -> bytes:
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), end - start, start)

    def _file_size(self) -> int:
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0


def _stars(data: bytes) -> bytes:
    return _VISIBLE.sub(b"*", data)


def _occurrences(block: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """Also those that overlap."""
    start = data.find(block)
    while start >= 0:
        yield start, start + len(block)
        start = data.find(block, start + 1)


def _blocks(text: bytes) -> Iterator[bytes]:
    """All of a short text; of a longer one, blocks that cover it."""
    if len(text) <= _BLOCK:
        yield text
        return
    for start in range(0, len(text) - _BLOCK, _BLOCK):
        yield text[start : start + _BLOCK]
    yield text[-_BLOCK:]


def _written(value: str) -> Iterator[bytes]:
    """The ways in which a value may be written."""
    stripped = value.strip()
    lines = {line.strip() for line in stripped.splitlines()}
    for text in {value, stripped, *(line for line in lines if len(line) >= _LINE_SHORTEST)}:
        for form in (*_escaped(text), *_encoded(text.encode())):
            if len(form) >= SHORTEST:
                yield form


def _escaped(text: str) -> Iterator[bytes]:
    yield text.encode()
    yield text.replace("\n", "\r\n").encode()
    for escaped in (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text)):
        yield escaped[1:-1].encode()
    for url in (quote(text), quote(text, safe=""), quote_plus(text)):
        yield url.encode()
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), url).encode()


def _encoded(data: bytes) -> Iterator[bytes]:
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        for whole in (encode(data), encode(data + b"\n")):
            yield whole
            for width in _WRAPPED:
                lines = (whole[at : at + width] for at in range(0, len(whole), width))
                yield b"\n".join(lines)
        for before in range(3):
            # What of it is the same, whatever is encoded before and after.
            begins, ends = -(-before * 8 // 6), (before + len(data)) * 8 // 6
            yield encode(b"\0" * before + data)[begins:ends]
