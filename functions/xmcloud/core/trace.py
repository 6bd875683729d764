"""W3C trace context: what a request, a job or an attempt belongs to, from process to process.

Identifiers always flow. Whether spans are recorded as well is for the tracer of the process.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, Self

HEADER = "traceparent"
VARIABLE = "TRACEPARENT"
"""In the environment of a process: what it was started for."""

_FORM = re.compile(r"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(?:-.*)?")
_SAMPLED = 1

Kind = Literal["internal", "server", "client", "consumer"]
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Trace:
    """A span of a trace; `sampled` asks whoever records spans to record those below it."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @classmethod
    def new(cls, *, sampled: bool = True) -> Self:
        """Of a trace of its own."""
        return cls(os.urandom(16).hex(), os.urandom(8).hex(), sampled)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for what is no valid `traceparent`: then a new trace begins."""
        found = _FORM.fullmatch(text.strip())
        if found is None or (text.startswith("00") and found[1] != text.strip()):
            return None
        version, trace_id, span_id, flags = found[1].split("-")
        if version == "ff" or not trace_id.strip("0") or not span_id.strip("0"):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))

    def child(self) -> Self:
        """Another span of the same trace."""
        return type(self)(self.trace_id, os.urandom(8).hex(), self.sampled)

    def __str__(self) -> str:
        """As the header carries it."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


class Span(Protocol):
    """Something that takes time."""

    @property
    def trace(self) -> Trace: ...

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def fail(self, why: str) -> None: ...

    def end(self) -> None: ...


class Tracer(Protocol):
    """Begins spans, and knows where they go."""

    flushes: bool
    """Whether spans must leave before a response does, since nothing runs after it."""

    def start(
        self, name: str, kind: Kind, parent: Trace | None, attributes: Mapping[str, Value]
    ) -> Span:
        """Below `parent`, or in a trace of its own."""

    def flush(self) -> None:
        """Returns when what ended was delivered, or could not be; may block for seconds."""


@dataclass(frozen=True, slots=True)
class _Unrecorded:
    trace: Trace

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def fail(self, why: str) -> None: ...

    def end(self) -> None: ...


class NoTracer:
    """Gives identifiers and records nothing."""

    flushes = False

    def start(
        self, name: str, kind: Kind, parent: Trace | None, attributes: Mapping[str, Value]
    ) -> Span:
        return _Unrecorded(parent.child() if parent else Trace.new())

    def flush(self) -> None: ...


_current: ContextVar[Trace | None] = ContextVar("xmcloud_trace", default=None)
_tracers: list[Tracer] = [NoTracer()]


def use(tracer: Tracer) -> None:
    """The tracer of this process from now on."""
    _tracers[:] = [tracer]


def tracer() -> Tracer:
    return _tracers[0]


def current() -> Trace | None:
    """What this task or thread works for."""
    return _current.get()


def traceparent() -> str:
    """Of `current`; '' without one."""
    now = _current.get()
    return str(now) if now else ""


def enter(trace: Trace | None) -> None:
    """Makes it the current one, until the task or thread ends."""
    _current.set(trace)


@contextmanager
def within(trace: Trace | None) -> Iterator[None]:
    """Makes it the current one for a while."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def span(
    name: str,
    kind: Kind = "internal",
    attributes: Mapping[str, Value] = MappingProxyType({}),
    parent: Trace | None = None,
) -> Iterator[Span]:
    """Current for as long as it lasts; below `parent`, else below what was current."""
    begun = tracer().start(name, kind, parent or current(), attributes)
    try:
        with within(begun.trace):
            yield begun
    except BaseException as error:
        begun.fail(type(error).__name__)
        raise
    finally:
        begun.end()
