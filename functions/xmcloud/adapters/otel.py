"""Spans to an OpenTelemetry collector. Nothing of it is imported before one is named."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from xmcloud.core.trace import Kind, NoTracer, Span, Trace, Tracer, Value
from xmcloud.core.version import VERSION

if TYPE_CHECKING:
    from opentelemetry import trace as api
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_logger = logging.getLogger("xmcloud.telemetry")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
_SECONDS = 2
"""A collector that is away must not hold up a command or a request for longer."""


def chosen_tracer(environment: Mapping[str, str], service: str) -> Tracer:
    """Exports where OTEL_EXPORTER_OTLP_ENDPOINT says so; else it gives identifiers alone.

    The standard variables hold: OTEL_SERVICE_NAME (else `service`), OTEL_RESOURCE_ATTRIBUTES,
    OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and _TIMEOUT, OTEL_SDK_DISABLED.
    """
    asked = any(environment.get(name) for name in _ENDPOINTS)
    if not asked or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NoTracer()
    try:
        return OtelTracer(_provider(environment, service), flushes="K_SERVICE" in environment)
    except ImportError:
        _logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent: OpenTelemetry is not"
            " installed. Install xmcloud[otel], or unset the variable."
        )
        return NoTracer()


def _provider(environment: Mapping[str, str], service: str) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    told = any(environment.get(name) for name in _TIMEOUTS)
    provider = TracerProvider(resource=_resource(environment, service))
    exporter = _Telling(OTLPSpanExporter(timeout=None if told else _SECONDS))
    provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", exporter)))
    return provider


class _Telling:
    """A `SpanExporter` that says once, in one line, that spans do not arrive."""

    def __init__(self, exporter: "SpanExporter") -> None:
        self._exporter = exporter
        self._told = False
        # It tells of each attempt.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        result = self._exporter.export(spans)
        if result.name == "FAILURE" and not self._told:
            self._told = True
            _logger.warning(
                "spans are lost: no OpenTelemetry collector takes them at the address of"
                " OTEL_EXPORTER_OTLP_ENDPOINT. Start it, or unset the variable."
            )
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _resource(environment: Mapping[str, str], service: str) -> "Resource":
    from opentelemetry.sdk.resources import Resource

    own = {"service.version": VERSION}
    if "service.name=" not in environment.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own["service.name"] = environment.get("OTEL_SERVICE_NAME") or service
    return Resource.create(own)


class OtelTracer:
    """The `Tracer` port on OpenTelemetry's SDK."""

    def __init__(self, provider: "TracerProvider", *, flushes: bool = False) -> None:
        self.flushes = flushes
        self._provider = provider
        self._tracer = provider.get_tracer("xmcloud", VERSION)

    def start(
        self, name: str, kind: Kind, parent: Trace | None, attributes: Mapping[str, Value]
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        above = _above(parent) if parent else Context()
        return _Recorded(
            self._tracer.start_span(name, above, SpanKind[kind.upper()], dict(attributes))
        )

    def flush(self) -> None:
        self._provider.force_flush(_SECONDS * 1000)

    def close(self) -> None:
        """Delivers what is left and ends its thread; happens by itself when the process ends."""
        self._provider.shutdown()


def _above(parent: Trace) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        set_span_in_context,
    )

    told = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(parent.sampled)),
    )
    return set_span_in_context(NonRecordingSpan(told), Context())


class _Recorded:
    def __init__(self, span: "api.Span") -> None:
        self._span = span
        told = span.get_span_context()
        self.trace = Trace(
            f"{told.trace_id:032x}", f"{told.span_id:016x}", bool(told.trace_flags.sampled)
        )

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes(dict(attributes))

    def fail(self, why: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, why))

    def end(self) -> None:
        self._span.end()
