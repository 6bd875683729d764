"""The trace of a command, and of each launch from Python."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from xmcloud.core import trace
from xmcloud.core.trace import HEADER, VARIABLE, Span, Trace, Value

_command: list[Trace] = []


@contextmanager
def command(name: str) -> Iterator[Span]:
    """Everything that this process asks for meanwhile, in whichever thread, is of one trace."""
    begun = begin(name)
    _command.append(begun.trace)
    try:
        yield begun
    except BaseException as error:
        # One that only ends the command, as click's and Python's own, tells with which status.
        if getattr(error, "exit_code", getattr(error, "code", 1)) != 0:
            begun.fail(type(error).__name__)
        raise
    finally:
        _command.pop()
        begun.end()


def begin(name: str) -> Span:
    """Below the command, below what started this process, or a trace of its own."""
    _choose_tracer()
    above = _command[-1] if _command else Trace.parse(os.environ.get(VARIABLE, ""))
    return trace.tracer().start(name, "internal", above, {})


def origin() -> Trace:
    """What the requests of a new client belong to."""
    _choose_tracer()
    if _command:
        return _command[-1]
    return Trace.parse(os.environ.get(VARIABLE, "")) or Trace.new()


@contextmanager
def request(method: str, path: str, of: Trace) -> Iterator[dict[str, str]]:
    """A request's headers, and its span."""
    about: dict[str, Value] = {"http.request.method": method, "url.path": path}
    with trace.span(method, "client", about, parent=trace.current() or of) as span:
        yield {HEADER: str(span.trace)}


@cache
def _choose_tracer() -> None:
    from xmcloud.xm_cloud.wiring import tracer

    trace.use(tracer())
