"""One trace from the command line over the control plane to the worker and its job."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.stack import Stack
from tests.support.collector import Collector, Span, collecting

pytestmark = pytest.mark.slow


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def test_a_command_its_requests_and_its_job_are_one_trace(
    embedded: Stack, collector: Collector
) -> None:
    embedded.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "XMCLOUD_LOG": "json",
    }
    embedded.up()
    ran = embedded("run", "--", "sh", "-c", "echo $TRACEPARENT")
    embedded.stop_parts("worker", "control-plane")

    (command,) = named(collector.of("xmcloud"), "xmcloud run")
    trace = [span for span in collector.spans if span.trace_id == command.trace_id]
    by_id = {span.span_id: span for span in trace}
    assert len(by_id) == len(trace)
    assert [span.name for span in trace if span.parent not in by_id] == ["xmcloud run"]
    assert not [span.name for span in trace if span.failed]

    (added,) = named(trace, "POST /v1/experiments/{id}/units")
    assert (added.service, added.kind) == ("xmcloud-api", "server")
    asked = by_id[added.parent]
    assert (asked.service, asked.kind) == ("xmcloud", "client")
    (attempt,) = named(trace, "attempt")
    assert (attempt.service, attempt.parent) == ("xmcloud-worker", added.span_id)
    assert attempt.attributes["xmcloud.outcome"] == "completed"
    assert ran.stdout == f"00-{attempt.trace_id}-{attempt.span_id}-01\n"
    for part in ("prepare", "run"):
        (below,) = named(trace, part)
        assert (below.service, below.parent) == ("xmcloud-worker", attempt.span_id)
    told = {s.parent for s in named(trace, "POST /v1/sessions/{id}/sync")}
    assert {by_id[parent].service for parent in told} == {"xmcloud-worker"}

    lines = [json.loads(line) for line in embedded.log_of("control-plane").splitlines()]
    of_job = [line for line in lines if line.get("job") == attempt.attributes["xmcloud.job"]]
    assert [line["state"] for line in of_job if line["state"] != "running"] == [
        "queued",
        "starting",
        "completed",
    ]
    assert {line["trace"] for line in of_job} == {command.trace_id}
    lines = [json.loads(line) for line in embedded.log_of("worker").splitlines()]
    took, ended = [line["message"] for line in lines if line.get("trace") == command.trace_id]
    assert took.startswith("took ")
    assert " completed in " in ended


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]
