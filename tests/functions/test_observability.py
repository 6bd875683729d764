"""What the API says of each request, of its deployment, and of whether it is ready."""

import asyncio
import json
import logging
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from tests.functions.api import TOKEN, Api, new_job, problem
from tests.support.clock import ManualClock
from tests.support.planes import sqlite_rig
from tests.support.recording import Recording
from xmcloud.core import trace
from xmcloud.core.control.census import take_census
from xmcloud.core.control.sessions import open_session
from xmcloud.core.control.sweep import sweep
from xmcloud.core.errors import Unavailable
from xmcloud.core.logs import JsonFormatter
from xmcloud.core.models import Job
from xmcloud.core.trace import NoTracer, Trace
from xmcloud.core.version import VERSION
from xmcloud.core.worker_protocol import OpenSession
from xmcloud.functions.observability.exposition import Metric, Sample, exposed
from xmcloud.functions.observability.readiness import Readiness
from xmcloud.functions.observability.requests import Observed, RequestCounts, traced

pytestmark = pytest.mark.anyio

PARENT = Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
TRACED = {"traceparent": str(PARENT)}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> "Lines":
    caplog.set_level(logging.DEBUG, "xmcloud")
    return Lines(caplog)


class Lines:
    """What was logged, as JSON."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def of(self, logger: str) -> list[dict[str, Any]]:
        records = [r for r in self._caplog.records if r.name == f"xmcloud.{logger}"]
        return [json.loads(JsonFormatter("p", "xmcloud-api").format(r)) for r in records]

    def clear(self) -> None:
        self._caplog.clear()


async def test_a_request_is_one_line(recorded_api: Api, lines: Lines) -> None:
    job = await recorded_api.job()
    lines.clear()
    await recorded_api.call("GET", f"/jobs/{job.id}", headers=TRACED, params={"x": "secret"})
    (line,) = lines.of("requests")
    assert line["message"].startswith("GET /v1/jobs/{id} 200 ")
    told = {name: line[name] for name in ("severity", "method", "route", "status", "principal")}
    assert told == {
        "severity": "INFO",
        "method": "GET",
        "route": "/v1/jobs/{id}",
        "status": 200,
        "principal": "owner",
    }
    assert line["duration_ms"] >= 0
    assert line["trace"] == PARENT.trace_id
    assert line["logging.googleapis.com/spanId"] != PARENT.span_id
    assert line["httpRequest"]["requestUrl"] == "/v1/jobs/{id}"
    for hidden in (job.id, "secret", TOKEN):
        assert hidden not in json.dumps(line)


async def test_what_nothing_serves_has_no_route(recorded_api: Api, lines: Lines) -> None:
    await recorded_api.refused("GET", "/secret/path", 404)
    await recorded_api.refused("DELETE", "/queues", 405)
    first, second = lines.of("requests")
    assert (first["route"], first["status"]) == ("unmatched", 404)
    assert (second["route"], second["status"]) == ("/v1/queues", 405)
    assert "secret" not in json.dumps(first)


async def test_what_machines_ask_all_day_is_for_debugging(recorded_api: Api, lines: Lines) -> None:
    session = await recorded_api.session()
    lines.clear()
    await recorded_api.sync(session)
    await recorded_api.call("GET", "/health")
    await recorded_api.refused("POST", f"/sessions/{'a' * 16}/sync", 404, {})
    assert [line["severity"] for line in lines.of("requests")] == ["DEBUG", "DEBUG", "INFO"]


@pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-{'1' * 16}-01"])
async def test_a_request_without_a_good_traceparent_begins_a_trace(
    recorded_api: Api, lines: Lines, header: str
) -> None:
    for _ in range(2):
        await recorded_api.call("GET", "/queues", headers={"traceparent": header})
    first, second = (line["trace"] for line in lines.of("requests"))
    assert first != second
    assert {len(first), len(second)} == {32}


async def test_a_mistake_is_told_to_the_log_and_its_trace_to_who_asked(lines: Lines) -> None:
    app = FastAPI()
    app.add_middleware(Observed, counts=RequestCounts())

    @app.get("/broken/{id}")
    async def broken(id: str) -> None:
        raise RuntimeError(f"secret {id}")

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.get("/broken/1", headers=TRACED)
    told = problem(answer)
    assert (told.status, told.type) == (500, "urn:xmcloud:problem:internal-error")
    assert PARENT.trace_id in told.remedy
    assert "secret" not in answer.text
    error, line = lines.of("requests")
    assert error["@type"].endswith("ReportedErrorEvent")
    assert error["stack_trace"].endswith("RuntimeError: secret 1\n")
    assert (line["severity"], line["status"], line["route"]) == ("ERROR", 500, "/broken/{id}")
    assert {error["trace"], line["trace"]} == {PARENT.trace_id}
    assert trace.current() is None


async def test_a_mistake_after_the_answer_began_ends_the_connection(lines: Lines) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    counts = RequestCounts()
    transport = httpx.ASGITransport(Observed(broken, counts))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        with pytest.raises(RuntimeError):
            await client.get("/")
    assert counts.requests == {("GET", "unmatched", 500): 1}
    assert [line["severity"] for line in lines.of("requests")] == ["ERROR", "ERROR"]


class Delayed(NoTracer):
    """Its spans leave only when it is told to."""

    flushes = True

    def __init__(self, happened: list[str]) -> None:
        self._happened = happened

    def flush(self) -> None:
        self._happened.append("spans left")


async def test_spans_leave_before_the_answer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    monkeypatch.setattr(trace, "_tracers", [Delayed(happened)])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, False):
            await send({"type": "http.response.body", "body": b"half", "more_body": more})

    async def send(message: Message) -> None:
        happened.append("ended" if message.get("more_body") is False else "sent")

    async def receive() -> Message:
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    await Observed(app, RequestCounts())(scope, receive, send)
    assert happened == ["sent", "sent", "spans left", "ended"]
    async with traced("sweep"):
        happened.clear()
    assert happened == ["spans left"]


async def test_jobs_remember_who_enqueued_them(recorded_api: Api, lines: Lines) -> None:
    api = recorded_api
    experiment = await api.experiment()
    body = {"units": [{"jobs": [new_job().model_dump(mode="json")]}]}
    answer = await api.call(
        "POST", f"/experiments/{experiment.id}/units", body, 201, headers=TRACED
    )
    job = Job.model_validate(answer.json()["jobs"][0])
    of_job, now = Trace.parse(job.trace), lines.of("requests")[-1]
    assert of_job is not None
    assert of_job.trace_id == PARENT.trace_id
    assert of_job.span_id == now["logging.googleapis.com/spanId"]
    await api.post(Job, f"/jobs/{job.id}/dequeue", {"by": "ann"})
    again = await api.post(Job, f"/jobs/{job.id}/enqueue", {"by": "ann", "queue": "low"})
    other = Trace.parse(again.trace)
    assert other is not None
    assert other.trace_id != PARENT.trace_id


async def test_a_job_s_lines_have_its_trace_whoever_changes_it(
    recorded_api: Api, lines: Lines
) -> None:
    api = recorded_api
    job = await api.job()
    session = await api.session()
    await api.ended(job, session, "failed")
    told = [line for line in lines.of("jobs") if line["job"] == job.id]
    assert [line["state"] for line in told] == ["queued", "starting", "running", "failed"]
    of_job = Trace.parse(job.trace)
    assert of_job is not None
    assert {line["trace"] for line in told} == {of_job.trace_id}
    assert told[-1]["worker"] == "ant"
    assert told[-1]["message"] == f"job {job.id} is failed: {told[-1]['reason']}"


async def test_a_lost_worker_is_a_line(recorded_api: Api, lines: Lines) -> None:
    await recorded_api.session()
    recorded_api.clock.advance(recorded_api.plane.lease)
    await sweep(recorded_api.plane)
    (line,) = lines.of("sweep")
    assert (line["event"], line["worker"], line["pool"]) == ("worker_lost", "ant", "local")


Metrics = dict[str, dict[tuple[str, ...], float]]


async def measured(api: Api) -> Metrics:
    """Values by the name of their metric and its labels' values."""
    answer = await api.call("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: Metrics = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation.endswith(".")
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def test_metrics_of_queues_jobs_and_workers(api: Api) -> None:
    session = await api.session(slots=8)
    await api.session("bee", slots=2)
    first = await api.job()
    await api.running(first, session)
    await api.job()
    api.clock.advance(7)
    await api.job()
    found = await measured(api)
    assert found["xmcloud_info"] == {(VERSION,): 1}
    assert found["xmcloud_queue_jobs"] == {("high",): 0, ("default",): 2, ("low",): 0}
    assert found["xmcloud_queue_oldest_seconds"]["default",] == 7
    assert found["xmcloud_queue_oldest_seconds"]["low",] == 0
    assert found["xmcloud_jobs"] == {
        ("building",): 0,
        ("starting",): 0,
        ("running",): 1,
        ("queued",): 2,
    }
    assert found["xmcloud_workers"] == {("local",): 2}
    assert found["xmcloud_workers_slots"] == {("local",): 10}
    assert found["xmcloud_workers_busy"] == {("local",): 1}
    assert found["xmcloud_workers_silent"] == {("local",): 0}
    api.clock.advance(api.plane.lease)
    assert (await measured(api))["xmcloud_workers_silent"] == {("local",): 2}


async def test_metrics_of_this_process(recorded_api: Api) -> None:
    before = (await measured(recorded_api)).get("xmcloud_http_request_seconds_count", {})
    for _ in range(3):
        await recorded_api.call("GET", "/queues")
    after = (await measured(recorded_api))["xmcloud_http_request_seconds_count"]
    key = ("GET", "/v1/queues", "200")
    assert after[key] - before.get(key, 0) == 3


async def test_methods_that_are_made_up_are_one(recorded_api: Api, lines: Lines) -> None:
    for method in ("BREW", "WHEN"):
        await recorded_api.refused(method, "/queues", 405)
    assert [line["method"] for line in lines.of("requests")] == ["OTHER", "OTHER"]


async def test_metrics_are_for_who_is_signed_in(recorded_api: Api) -> None:
    await recorded_api.refused("GET", "/metrics", 401, headers={"Authorization": ""})


async def test_what_a_scrape_reads(tmp_path: Path) -> None:
    """As the documents say: 4, 2 a queue and 2 a worker, where an empty answer counts as one."""
    rig = sqlite_rig(tmp_path, ManualClock())
    for name in ("ant", "bee"):
        await open_session(rig.plane, name, OpenSession())
    rig.costs.clear()
    rig.recording.calls.clear()
    await take_census(rig.plane)
    queues, workers = 3, 2
    asked = rig.recording.calls
    assert asked == Counter({"store.find": 2 + queues, "store.count": queues + 3 + workers})
    assert rig.costs["read"] <= 5 + 2 * queues + 2 * workers
    assert rig.costs["write"] == 0
    await rig.close()


def test_what_is_exposed_is_escaped() -> None:
    samples = [Sample(0.25, {"route": 'a"b\\c\nd'}), Sample(2, {})]
    text = exposed([Metric("m", "gauge", "Back\\slash\nand line.", samples)])
    (family,) = text_string_to_metric_families(text)
    assert family.documentation == "Back\\slash\nand line."
    assert [(s.labels, s.value) for s in family.samples] == [
        ({"route": 'a"b\\c\nd'}, 0.25),
        ({}, 2.0),
    ]


async def test_it_is_ready_and_asks_seldom(recorded_api: Api, recording: Recording) -> None:
    no_token = {"Authorization": ""}
    recording.calls.clear()
    for _ in range(3):
        answer = await recorded_api.call("GET", "/ready", headers=no_token)
        assert answer.json() == {"status": "ready"}
    assert recording.calls["store.get"] == 1
    recorded_api.clock.advance(5)
    await recorded_api.call("GET", "/ready", headers=no_token)
    assert recording.calls["store.get"] == 2


async def test_on_every_adapter_it_is_ready(api: Api) -> None:
    assert (await api.call("GET", "/ready")).json() == {"status": "ready"}


async def test_it_says_what_does_not_answer_and_no_more(
    recorded_api: Api, recording: Recording, lines: Lines
) -> None:
    async def away(operation: str) -> None:
        if operation == "store.get":
            raise Unavailable("db.internal:5432 does not answer: password wrong")

    recording.before = away
    refused = await recorded_api.refused("GET", "/ready", 503, headers={"Authorization": ""})
    assert refused.type == "urn:xmcloud:problem:not-ready"
    assert refused.detail == "Not answering: store."
    assert "the database is there" in refused.remedy
    assert "db.internal" not in refused.model_dump_json()
    (line,) = lines.of("ready")
    assert "db.internal" in line["message"]


async def test_what_is_silent_for_long_does_not_answer(
    recorded_api: Api, recording: Recording
) -> None:
    async def hang(operation: str) -> None:
        await asyncio.Event().wait()

    recording.before = hang
    recorded_api.app.state.readiness = Readiness(seconds=0.01)
    refused = await recorded_api.refused("GET", "/ready", 503)
    assert refused.detail.startswith("Not answering: store")


async def test_files_that_are_not_there_do_not_answer(recorded_api: Api, tmp_path: Path) -> None:
    await recorded_api.call("GET", "/ready")
    shutil.rmtree(tmp_path / "blobs")
    (tmp_path / "blobs").symlink_to("blobs")
    recorded_api.clock.advance(5)
    refused = await recorded_api.refused("GET", "/ready", 503)
    assert refused.detail == "Not answering: blobs."
