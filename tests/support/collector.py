"""An OpenTelemetry collector: takes spans over OTLP/HTTP and keeps them."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent
from opentelemetry.proto.trace.v1.trace_pb2 import Status


class Span(NamedTuple):
    """What tests look at of a span."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    attributes: dict[str, str]
    failed: bool


@dataclass
class Collector:
    """What came, in order of arrival."""

    url: str
    spans: list[Span] = field(default_factory=list)

    def of(self, service: str) -> list[Span]:
        return [span for span in self.spans if span.service == service]

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_span(about["service.name"], span) for span in scope.spans]


def _span(service: str, sent: Sent) -> Span:
    attributes = {
        each.key: str(getattr(each.value, each.value.WhichOneof("value") or ""))
        for each in sent.attributes
    }
    return Span(
        service=service,
        name=sent.name,
        kind=Sent.SpanKind.Name(sent.kind).removeprefix("SPAN_KIND_").lower(),
        trace_id=sent.trace_id.hex(),
        span_id=sent.span_id.hex(),
        parent=sent.parent_span_id.hex(),
        attributes=attributes,
        failed=sent.status.code == Status.STATUS_CODE_ERROR,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            collector.take(gzip.decompress(body) if zipped else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
