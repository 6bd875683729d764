"""A log without the states of progress bars that were overwritten since."""

import os
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from xmcloud.core.screen import shows
from xmcloud.worker.redaction import JobLog

SHOW_SECONDS = 2.0
"""So often, at most, the state of an unfinished line is given out."""

_LONE_RETURN = re.compile(rb"\r(?!\n)")
_PIECE_BYTES = 256 * 1024
_PIECES_AT_ONCE = 16
_LONGEST_STATE = 64 * 1024
_SURELY_VISIBLE = 4096
_STATES_LOOKED_AT = 1000
_MARK = b"thin"
_RECORD = struct.Struct("<4sQQQB")
_RECORD_BYTES = 32
_RECORD_EVERY = 16 * 1024 * 1024


class Place(IntEnum):
    """Where in a line of what was given out the next byte of the log belongs."""

    FRESH = 0
    """Nothing of the line was given out."""

    INSIDE = 1
    """The state that was given out last goes on."""

    AFTER = 2
    """Another state than what was given out last begins."""


class Step(NamedTuple):
    """What to give out, how much of the log that stands for, and how it goes on."""

    out: bytes
    consumed: int
    place: Place


def thinned(data: bytes, place: Place, *, final: bool = False, show: bool = False) -> Step:
    """The lines of `data` with the last visible state of each.

    What has no newline yet is left, unless it is to be shown, or nothing follows (`final`).
    """
    end = data.rfind(b"\n") + 1
    out = bytearray()
    for line in _with_runs_of_plain_lines(data[:end]):
        out += _state(line, place)
        place = Place.FRESH
    rest = data[end:]
    if final:
        return Step(bytes(out + _state(rest, place)), len(data), place)
    known = rest.removesuffix(b"\r")  # what follows tells whether it ends the line
    start = _last_visible(known)
    stop = _end_of_state(known, start)
    if show or len(rest) - start > _LONGEST_STATE:
        if stop > start:
            out += _beginning(place, start) + known[start:stop]
            return Step(bytes(out), end + stop, Place.INSIDE)
        start = max(start, known.rfind(b"\r") + 1)
    if start and place is not Place.FRESH:
        place = Place.AFTER
    return Step(bytes(out), end + start, place)


def _with_runs_of_plain_lines(whole: bytes) -> list[bytes]:
    """Each line that has states by itself, what is between them in one piece."""
    pieces: list[bytes] = []
    at = 0
    while found := _LONE_RETURN.search(whole, at) if b"\r" in whole else None:
        start = whole.rfind(b"\n", at, found.start()) + 1 or at
        end = whole.index(b"\n", found.start()) + 1
        pieces += (part for part in (whole[at:start], whole[start:end]) if part)
        at = end
    return [*pieces, whole[at:]] if at < len(whole) else pieces


def _state(line: bytes, place: Place) -> bytes:
    """What stands for a line, or for whole lines of which only the first may have states."""
    ending = len(line)
    if line.endswith(b"\n"):
        ending -= 2 if line.endswith(b"\r\n") else 1
    if _LONE_RETURN.search(line[:ending]) is None:
        start, stop = 0, ending
    else:
        start = _last_visible(line[:ending])
        stop = _end_of_state(line[:ending], start)
    state = line[start:stop]
    return (_beginning(place, start) if state else b"") + state + line[ending:]


def _beginning(place: Place, start: int) -> bytes:
    """What sets the state that begins there apart from what was given out."""
    if place is Place.FRESH or (place is Place.INSIDE and start == 0):
        return b""
    return b"\r"


def _last_visible(line: bytes) -> int:
    """Where the last state begins that shows anything; 0 without any.

    Who wrote very many that show nothing has what was before them overwritten.
    """
    stop = len(line.rstrip(b"\r"))
    for _ in range(_STATES_LOOKED_AT):
        start = line.rfind(b"\r", 0, stop) + 1
        if start == 0 or _shows(line[start:stop]):
            return start
        stop = start - 1
    return start


def _end_of_state(line: bytes, start: int) -> int:
    stop = line.find(b"\r", start)
    return len(line) if stop < 0 else stop


def _shows(state: bytes) -> bool:
    if len(state) > _SURELY_VISIBLE:
        return True
    return shows(state.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class _Thin:
    """What the second file stands for: the log from `base` up to `scanned`, in `size` bytes."""

    base: int
    scanned: int
    size: int
    place: Place

    @property
    def end(self) -> int:
        return self.base + self.size


class ThinLog:
    """The bytes that are told of a log: its own up to the first lone `\\r`, then thinned ones.

    The thinned ones are kept in a second file. Its record is written after them, and nothing
    beyond it is ever given out, so that a worker that was killed goes on with the same bytes.
    Methods raise OSError.
    """

    def __init__(self, log: JobLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._path = log.path.with_suffix(".thin")
        self._clock = clock
        self._thin = _load(self._path)
        self._recorded = self._thin.scanned if self._thin else 0
        self._open_return = 0
        self._seen = -1
        self._shown_at = -SHOW_SECONDS

    def size(self) -> int:
        """The offset up to which there may be bytes now."""
        if self._thin is None:
            size = self._log.size()
            return size - 1 if size and size == self._open_return else size
        self._advance(final=False)
        return self._thin.end

    def ahead(self, offset: int) -> int:
        """How many bytes there are from `offset` on, without a closer look."""
        return (self._thin.end if self._thin else self._log.size()) - offset

    def read(self, offset: int, length: int, *, final: bool) -> bytes:
        """Up to so many bytes; `final`: nothing writes to the log any more."""
        if self._thin is None:
            data = self._read_plain(offset, length, final)
            if data or self._thin is None:
                return data
        if offset < self._thin.base:
            return self._log.read(offset, min(length, self._thin.base - offset))
        if offset >= self._thin.end:
            self._advance(final)
        length = min(length, self._thin.end - offset)
        return _read(self._path, _RECORD_BYTES + offset - self._thin.base, length)

    def ends_at(self, offset: int) -> bool:
        """Nothing follows, if nothing writes to the log any more."""
        if self._thin is None:
            return offset >= self._log.size()
        return offset >= self._thin.end and self._thin.scanned >= self._log.size()

    def told_of(self, offset: int) -> int:
        """How much of the log is known to whoever has the bytes up to `offset`."""
        return self._thin.scanned if self._thin else offset

    def _read_plain(self, offset: int, length: int, final: bool) -> bytes:
        """What has no lone `\\r`; at one, the second file begins."""
        if offset >= self._log.size():
            return b""
        data = self._log.read(offset, length + 1)
        lone = _LONE_RETURN.search(data)
        if lone is None or lone.start() >= length:
            return data[:length]
        at = lone.start()
        if at < len(data) - 1:
            self._thin = _Thin(offset + at, offset + at, 0, Place.INSIDE)
        elif final:
            return data
        else:  # what follows tells whether it ends a line
            self._open_return = offset + len(data)
        return data[:at]

    def _advance(self, final: bool) -> None:
        """Look at what the log has now, but not at more than a few MB at once."""
        thin, size = self._thin, self._log.size()
        now = self._clock()
        due = now - self._shown_at >= SHOW_SECONDS
        if thin is None or thin.scanned >= size or not (final or due or size != self._seen):
            return
        with _opened(self._path) as file:
            for _ in range(_PIECES_AT_ONCE):
                data = self._log.read(thin.scanned, min(_PIECE_BYTES, size - thin.scanned))
                last = thin.scanned + len(data) == size
                step = thinned(data, thin.place, final=final and last, show=due and last)
                _write(file.fileno(), step.out, _RECORD_BYTES + thin.size)
                scanned, written = thin.scanned + step.consumed, thin.size + len(step.out)
                thin = replace(thin, scanned=scanned, size=written, place=step.place)
                if last:
                    self._seen = size
                    break
            self._record(file.fileno(), thin, always=final)
        if due and last:
            self._shown_at = now

    def _record(self, file: int, thin: _Thin, always: bool) -> None:
        more = self._thin is None or thin.size != self._thin.size
        if more or always or thin.scanned - self._recorded >= _RECORD_EVERY:
            fields = (_MARK, thin.base, thin.scanned, thin.size, thin.place)
            _write(file, _RECORD.pack(*fields), 0)
            self._recorded = thin.scanned
        self._thin = thin


def _load(path: Path) -> _Thin | None:
    try:
        record = _read(path, 0, _RECORD.size)
    except FileNotFoundError:
        return None
    if not record.startswith(_MARK):
        return None
    _, base, scanned, size, place = _RECORD.unpack(record)
    return _Thin(base, scanned, size, Place(place))


def _opened(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)


def _read(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), length, offset)


def _write(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
