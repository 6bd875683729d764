"""Spans to a collector, when one is named and not before."""

import logging
import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.support.collector import collecting
from xmcloud.adapters.otel import OtelTracer, chosen_tracer
from xmcloud.core.trace import NoTracer, Trace

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    "environment",
    [{}, {ENDPOINT: ""}, {ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}],
)
def test_without_a_collector_nothing_is_recorded(environment: Mapping[str, str]) -> None:
    assert isinstance(chosen_tracer(environment, "xmcloud"), NoTracer)


def test_then_nothing_of_opentelemetry_is_imported() -> None:
    program = (
        "import sys\n"
        "from xmcloud.adapters.otel import chosen_tracer\n"
        "chosen_tracer({}, 'xmcloud').start('a', 'internal', None, {}).end()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_collector_without_the_extra_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert isinstance(chosen_tracer({ENDPOINT: "http://127.0.0.1:9"}, "xmcloud"), NoTracer)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Install xmcloud[otel], or unset the variable." in record.getMessage()


def test_spans_arrive_with_their_parent_and_their_service(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Trace.new()
    with collecting() as collector:
        monkeypatch.setenv(ENDPOINT, collector.url)
        tracer = chosen_tracer({ENDPOINT: collector.url, "K_SERVICE": "api"}, "xmcloud-api")
        assert tracer.flushes
        span = tracer.start("GET", "server", parent, {"http.request.method": "GET"})
        span.rename("GET /v1/jobs/{id}")
        span.set({"http.response.status_code": 500})
        span.fail("HTTP 500")
        span.end()
        tracer.flush()
        (sent,) = collector.spans
    assert (sent.service, sent.name, sent.kind) == ("xmcloud-api", "GET /v1/jobs/{id}", "server")
    assert (sent.trace_id, sent.parent) == (parent.trace_id, parent.span_id)
    assert sent.span_id == span.trace.span_id
    assert sent.attributes == {"http.request.method": "GET", "http.response.status_code": "500"}
    assert sent.failed
    close(tracer)


@pytest.mark.parametrize(
    ("told", "service"),
    [
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=ours"}, "ours"),
    ],
)
def test_the_service_is_called_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, told: Mapping[str, str], service: str
) -> None:
    with collecting() as collector:
        for name, value in {ENDPOINT: collector.url, **told}.items():
            monkeypatch.setenv(name, value)
        tracer = chosen_tracer({ENDPOINT: collector.url, **told}, "xmcloud")
        tracer.start("a", "internal", None, {}).end()
        tracer.flush()
        assert [span.service for span in collector.spans] == [service]
    close(tracer)


def test_what_the_parent_does_not_record_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Trace.new(sampled=False)
    with collecting() as collector:
        monkeypatch.setenv(ENDPOINT, collector.url)
        tracer = chosen_tracer({ENDPOINT: collector.url}, "xmcloud")
        span = tracer.start("a", "internal", parent, {})
        span.end()
        tracer.flush()
        assert collector.spans == []
    assert (span.trace.trace_id, span.trace.sampled) == (parent.trace_id, False)
    assert span.trace.span_id != parent.span_id
    close(tracer)


def test_a_collector_that_is_away_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    environment = {ENDPOINT: url, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.01"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tracer = chosen_tracer(environment, "xmcloud")
    for _ in range(2):
        tracer.start("a", "internal", None, {}).end()
        tracer.flush()
    (record,) = caplog.records
    assert record.getMessage().startswith("spans are lost: no OpenTelemetry collector takes them")
    close(tracer)


def close(tracer: object) -> None:
    assert isinstance(tracer, OtelTracer)
    tracer.close()
