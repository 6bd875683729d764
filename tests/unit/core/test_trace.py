"""Trace context as W3C defines it, and what is current."""

import asyncio
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.support.builders import draft
from xmcloud.core import trace
from xmcloud.core.models import Job
from xmcloud.core.names import TraceParent
from xmcloud.core.trace import Kind, NoTracer, Span, Trace, Value

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PARENT, Trace(TRACE_ID, SPAN_ID)),
        (f" {PARENT}\t", Trace(TRACE_ID, SPAN_ID)),
        (f"00-{TRACE_ID}-{SPAN_ID}-00", Trace(TRACE_ID, SPAN_ID, sampled=False)),
        (f"00-{TRACE_ID}-{SPAN_ID}-03", Trace(TRACE_ID, SPAN_ID)),
        (f"01-{TRACE_ID}-{SPAN_ID}-01-of-a-later-version", Trace(TRACE_ID, SPAN_ID)),
    ],
)
def test_what_is_a_traceparent(text: str, expected: Trace) -> None:
    assert Trace.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"{PARENT}-more",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n00",
        "é" * 55,
    ],
)
def test_what_is_none(text: str) -> None:
    assert Trace.parse(text) is None


def test_it_is_written_as_it_is_read() -> None:
    for made in (Trace.new(), Trace.new(sampled=False)):
        assert Trace.parse(str(made)) == made


def test_a_child_is_another_span_of_the_trace() -> None:
    parent = Trace.new(sampled=False)
    child = parent.child()
    assert (child.trace_id, child.sampled) == (parent.trace_id, False)
    assert child.span_id != parent.span_id
    assert Trace.new().trace_id != Trace.new().trace_id


def test_a_job_remembers_a_traceparent_or_nothing() -> None:
    assert draft().trace == ""
    assert draft().evolve(trace=PARENT).trace == PARENT
    with pytest.raises(ValidationError):
        TypeAdapter(TraceParent).validate_python("; rm -rf /")
    older = draft().model_dump_json(exclude={"trace"})
    assert Job.model_validate_json(older) == draft()


def test_spans_nest_and_are_current_while_they_last() -> None:
    assert trace.traceparent() == ""
    with trace.span("outer") as outer, trace.span("inner") as inner:
        assert trace.current() == inner.trace
        assert inner.trace.trace_id == outer.trace.trace_id
    assert trace.current() is None


def test_a_task_keeps_what_it_began_with() -> None:
    async def of_task() -> str:
        await asyncio.sleep(0)
        return trace.traceparent()

    async def two() -> list[str]:
        tasks = []
        for _ in range(2):
            with trace.span("task"):
                tasks.append((trace.traceparent(), asyncio.create_task(of_task())))
        return [began for began, task in tasks if await task != began]

    assert asyncio.run(two()) == []


class Failing(NoTracer):
    """Notes why spans failed."""

    def __init__(self) -> None:
        self.why: list[str] = []

    def start(
        self, name: str, kind: Kind, parent: Trace | None, attributes: Mapping[str, Value]
    ) -> Span:
        return _Noted(self.why)


class _Noted:
    trace = Trace.new()

    def __init__(self, why: list[str]) -> None:
        self._why = why

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def fail(self, why: str) -> None:
        self._why.append(why)

    def end(self) -> None:
        self._why.append("ended")


def test_an_error_fails_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Failing()
    monkeypatch.setattr(trace, "_tracers", [tracer])
    with pytest.raises(KeyError), trace.span("work"):
        raise KeyError
    assert tracer.why == ["KeyError", "ended"]
