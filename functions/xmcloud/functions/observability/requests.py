"""Each request: the trace that it continues, one line in the log, a count, and a span."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmcloud.core import logs, trace
from xmcloud.core.errors import XmcloudError
from xmcloud.core.protocol import Problem
from xmcloud.core.trace import Span, Trace
from xmcloud.functions.http.problems import problem_response

logger = logging.getLogger("xmcloud.requests")

UNMATCHED = "unmatched"
"""The route of a path that nothing serves: paths themselves could be anything."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CLIENT_GONE = 499
_ROUTINE = frozenset(
    {
        "/v1/health",
        "/v1/ready",
        "/v1/metrics",
        "/v1/sessions/{id}/sync",
        "/v1/messages/pull",
        "/v1/messages/settle",
    }
)
"""What machines ask all day: DEBUG while it succeeds."""

Labels = tuple[str, str, int]


class InternalError(XmcloudError):
    """The control plane made a mistake."""

    slug, title, status = "internal-error", "Internal error", 500

    def __init__(self, of: Trace) -> None:
        super().__init__(
            "The control plane made a mistake.", f"Its log tells more, under trace {of.trace_id}."
        )


@dataclass(slots=True)
class RequestCounts:
    """By method, route and status; of this process, since it began."""

    requests: Counter[Labels] = field(default_factory=Counter)
    seconds: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Labels, seconds: float) -> None:
        self.requests[labels] += 1
        self.seconds[labels] = self.seconds.get(labels, 0.0) + seconds


class Observed:
    """ASGI middleware, around all that may answer."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts
        self._alone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._alone:
            self._alone = True
            logs.take_over()
        await _Exchange(scope, self._counts).run(self._app, receive, send)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, counts: RequestCounts) -> None:
        self._scope, self._counts = scope, counts
        self._began = time.perf_counter()
        self._status = 0
        self._ended = False
        # Whoever asks could make up any number of them, and each would be counted by itself.
        self._method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        about = {"http.request.method": self._method}
        self._span = trace.tracer().start(self._method, "server", _told(scope), about)

    async def run(self, app: ASGIApp, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
            elif not message.get("more_body", False):
                self._end()
                await flushed()
            await send(message)

        try:
            with trace.within(self._span.trace):
                await self._answered(app, receive, watched)
        except asyncio.CancelledError:
            self._status = self._status or _CLIENT_GONE
            raise
        finally:
            self._end()

    async def _answered(self, app: ASGIApp, receive: Receive, send: Send) -> None:
        """A mistake of ours is told in the log, and its trace to who asked.

        Raises it when the answer had begun: then the connection ends.
        """
        try:
            await app(self._scope, receive, send)
        except Exception as error:
            told = logs.about(self._span.trace)
            logger.exception("%s %s failed", self._method, _route(self._scope), extra=told)
            self._span.fail(type(error).__name__)
            if self._status:
                self._status = 500
                raise
            mistake = Problem.of(InternalError(self._span.trace))
            await problem_response(mistake)(self._scope, receive, send)

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        seconds = time.perf_counter() - self._began
        method, route = self._method, _route(self._scope)
        self._counts.add((method, route, self._status or _CLIENT_GONE), seconds)
        self._log(method, route, seconds)
        _finish(self._span, method, route, self._status)

    def _log(self, method: str, route: str, seconds: float) -> None:
        quiet = route in _ROUTINE and self._status < 400
        level = logging.DEBUG if quiet else logging.INFO
        if self._status >= 500:
            level = logging.WARNING if self._status in (503, 507) else logging.ERROR
        if not logger.isEnabledFor(level):
            return
        who = _principal(self._scope)
        logger.log(
            level,
            "%s %s %d %.0f ms%s",
            method,
            route,
            self._status,
            seconds * 1000,
            f" {who}" if who else "",
            extra=logs.about(
                self._span.trace,
                httpRequest={
                    "requestMethod": method,
                    "requestUrl": route,
                    "status": self._status,
                    "latency": f"{seconds:.6f}s",
                },
                method=method,
                route=route,
                status=self._status,
                duration_ms=round(seconds * 1000, 3),
                principal=who,
            ),
        )


@asynccontextmanager
async def traced(event: str) -> AsyncIterator[None]:
    """For an event, which continues no trace; its span leaves before the event is done."""
    logs.take_over()
    try:
        with trace.span(event, "consumer"):
            yield
    finally:
        await flushed()


async def flushed() -> None:
    """Where nothing runs after a response: spans leave before it does."""
    tracer = trace.tracer()
    if tracer.flushes:
        await asyncio.to_thread(tracer.flush)


def _finish(span: Span, method: str, route: str, status: int) -> None:
    if route != UNMATCHED:
        span.rename(f"{method} {route}")
        span.set({"http.route": route})
    span.set({"http.response.status_code": status})
    if status >= 500:
        span.fail(f"HTTP {status}")
    span.end()


def _told(scope: Scope) -> Trace | None:
    wanted = trace.HEADER.encode()
    found = [value for name, value in scope["headers"] if name == wanted]
    return Trace.parse(found[0].decode("latin-1")) if len(found) == 1 else None


def _route(scope: Scope) -> str:
    """With the prefix below which its router is: a route itself may not know it."""
    own: str | None = getattr(scope.get("route"), "path", None)
    if own is None:
        return UNMATCHED
    above = scope["path"].split("/")[: -own.count("/") or None]
    return "/".join(above) + own


def _principal(scope: Scope) -> str:
    state: Any = scope.get("state", {})
    return str(getattr(state.get("principal"), "name", ""))
