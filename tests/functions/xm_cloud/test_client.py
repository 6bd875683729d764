"""The client against servers that answer, refuse, break off and are not there."""

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from xmcloud.core.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidInput,
    NotFound,
    OverQuota,
    Unauthorized,
    Unavailable,
)
from xmcloud.core.models import Experiment, JobState
from xmcloud.core.protocol import (
    Act,
    CloneExperiment,
    EditJob,
    Enqueue,
    Move,
    NewExperiment,
    NewJob,
    NewQueue,
    NewUnit,
    NewUnits,
    Problem,
    Stop,
)
from xmcloud.core.specs import Argument, Command, JobSpec
from xmcloud.xm_cloud.client import ATTEMPTS, Client

SPEC = JobSpec(executable=Command(command=("true",)), arguments=(Argument(name="lr", value=0.1),))


def added(client: Client, count: int = 1, queue: str | None = "default") -> Experiment:
    experiment = client.create_experiment(NewExperiment(title="An experiment"))
    units = tuple(
        NewUnit(jobs=(NewJob(name=f"job{n}", spec=SPEC, queue=queue),)) for n in range(count)
    )
    client.add_units(experiment.id, NewUnits(units=units))
    return experiment


def test_health_needs_no_token(url: str) -> None:
    with Client(url, "") as client:
        assert client.health().status == "ok"


def test_the_same_key_gives_the_same_experiment(client: Client) -> None:
    new = NewExperiment(title="Once")
    assert client.create_experiment(new, "k").id == client.create_experiment(new, "k").id
    assert client.create_experiment(new).id != client.create_experiment(new).id
    assert len(client.experiments().experiments) == 3


def test_jobs_come_page_by_page(client: Client) -> None:
    experiment = added(client, 5)
    assert [job.unit for job in client.jobs_of(experiment.id, page=2)] == [1, 2, 3, 4, 5]
    assert len(list(client.queue_jobs("default", page=2))) == 5
    assert client.experiment(experiment.id[:8]).states == {JobState.QUEUED: 5}


def test_experiments_page_by_cursor(client: Client) -> None:
    made = [added(client).id for _ in range(3)]
    first = client.experiments(limit=2)
    second = client.experiments(limit=2, cursor=first.cursor)
    found = [each.experiment.id for each in (*first.experiments, *second.experiments)]
    assert (found, second.cursor) == (made[::-1], None)


def test_the_life_of_a_job(client: Client) -> None:
    experiment = added(client, queue=None)
    [job] = client.jobs_of(experiment.id)
    spec = SPEC.evolve(pool="lab")
    assert client.edit_job(job.id, EditJob(spec=spec)).spec == spec
    assert client.enqueue_job(job.id, Enqueue()).state is JobState.QUEUED
    assert client.move_job(job.id, Move(to="front", queue="high")).queue == "high"
    assert client.dequeue_job(job.id, Act()).state is JobState.DRAFT
    client.enqueue_job(job.id, Enqueue())
    assert client.stop_job(job.id, Stop(message="x")).state is JobState.STOPPED
    assert client.reset_job(job.id, Act()).state is JobState.DRAFT
    clone = client.clone_job(job.id, CloneExperiment(arguments={"lr": 1.0}))
    [copied] = client.jobs_of(clone.id)
    assert repr(copied.spec.arguments[0].value) == "1.0"
    assert client.job(job.id[:10]).name == "job0"


def test_actions_on_all_jobs(client: Client) -> None:
    experiment = added(client, 2)
    assert len(client.dequeue_experiment(experiment.id, Act()).jobs) == 2
    assert len(client.dequeue_experiment(experiment.id, Act()).skipped) == 2
    assert len(client.enqueue_experiment(experiment.id, Enqueue()).jobs) == 2
    assert len(client.stop_experiment(experiment.id, Stop()).jobs) == 2
    assert len(client.reset_experiment(experiment.id, Act()).jobs) == 2
    assert client.clone_experiment(experiment.id, CloneExperiment()).units == 2


def test_changes_since_a_cursor(client: Client) -> None:
    experiment = added(client, 2)
    first = client.changes(experiment.id)
    assert len(first.jobs) == 2
    client.stop_job(first.jobs[0].id, Stop())
    later = client.changes(experiment.id, first.cursor, wait_seconds=20)
    assert first.jobs[0].id in {job.id for job in later.jobs}


def test_queues(client: Client) -> None:
    assert client.create_queue(NewQueue(name="night", priority=7)).priority == 7
    assert client.pause_queue("night", Act()).paused
    assert not client.resume_queue("night", Act()).paused
    assert client.queue("night").waiting == 0
    assert {status.queue.name for status in client.queues()} == {"high", "default", "low", "night"}
    with pytest.raises(AlreadyExists):
        client.create_queue(NewQueue(name="night", priority=8))
    assert client.workers().sessions == []


def test_blobs(client: Client) -> None:
    data = b"\0\xff" * 1000
    digest = hashlib.sha256(data).hexdigest()
    assert not client.has_blob(digest)
    client.put_blob(digest, data)
    assert client.has_blob(digest)
    assert client.get_blob(digest) == data
    with pytest.raises(InvalidInput):
        client.put_blob("0" * 64, data)
    with pytest.raises(NotFound):
        client.get_blob("0" * 64)


def test_refusals_are_the_errors_that_were_raised(client: Client, url: str) -> None:
    with pytest.raises(NotFound, match="zzzz"):
        client.experiment("zzzz")
    [job] = client.jobs_of(added(client).id)
    with pytest.raises(IllegalTransition):
        client.reset_job(job.id, Act())
    with pytest.raises(NotFound):
        client.job("../queues")
    with Client(url, "wrong") as stranger, pytest.raises(Unauthorized):
        stranger.queues()


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, body: str = "{}") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


HEALTHY = status(200, '{"status": "ok", "version": "1"}')


class Requests(list[tuple[str, str]]):
    """Method and idempotency key of each request."""


def slow_down(seconds: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", seconds)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@contextmanager
def scripted(
    *answers: Answer, slept: Callable[[float], None] = lambda seconds: None
) -> Iterator[tuple[Client, Requests]]:
    """A client of a server that gives these answers in turn."""
    left = list(answers)
    requests = Requests()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.command, self.headers.get("Idempotency-Key", "")))
            left.pop(0)(self)

        do_GET = do_PUT = do_POST = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with Client(url, "t", sleep=slept) as client:
            yield client, requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("failure", [status(503), status(502), hang_up], ids=["503", "502", "cut"])
def test_what_may_be_repeated_is_repeated(failure: Answer) -> None:
    with scripted(failure, failure, HEALTHY) as (client, requests):
        assert client.health().version == "1"
    assert requests == [("GET", "")] * 3


def test_a_creation_is_repeated_under_one_key() -> None:
    with (
        scripted(hang_up, status(503), status(422)) as (client, requests),
        pytest.raises(Unavailable),
    ):
        client.create_experiment(NewExperiment(title="x"))
    assert len(requests) == 3
    assert len(set(requests)) == 1
    assert requests[0][1]


@pytest.mark.parametrize("failure", [status(503), hang_up], ids=["503", "cut"])
def test_an_action_is_not_repeated(failure: Answer) -> None:
    with scripted(failure, failure) as (client, requests), pytest.raises(Unavailable):
        client.stop_job("a", Stop())
    assert requests == [("POST", "")]


def test_who_came_too_fast_waits_as_long_as_he_is_told_within_reason() -> None:
    """A request that was not let in did nothing, so that an action is sent again too."""
    slept: list[float] = []
    answers = (slow_down("7"), slow_down("86400"), slow_down("soon"), HEALTHY)
    with scripted(*answers, slept=slept.append) as (client, requests):
        client.health()
    assert slept == [7, 30, 1]
    assert len(requests) == 4
    with (
        scripted(*[slow_down("1")] * ATTEMPTS) as (client, requests),
        pytest.raises(Unavailable, match="HTTP 429"),
    ):
        client.stop_job("a", Stop())
    assert len(requests) == ATTEMPTS


def test_over_quota_is_not_tried_again() -> None:
    problem = Problem.of(OverQuota("Project vision runs 8 of 8 jobs.", "Wait.")).model_dump_json()
    with (
        scripted(status(409, problem)) as (client, requests),
        pytest.raises(OverQuota, match="runs 8 of 8 jobs"),
    ):
        client.create_experiment(NewExperiment(title="x"))
    assert len(requests) == 1


def test_trying_ends() -> None:
    with (
        scripted(*[status(503)] * ATTEMPTS) as (client, requests),
        pytest.raises(Unavailable, match="not ready"),
    ):
        client.health()
    assert len(requests) == ATTEMPTS


@pytest.mark.parametrize(
    "answer",
    [status(200, "<html>"), status(200, "{}"), status(500, "oops")],
    ids=["a page", "another document", "a failure"],
)
def test_an_answer_of_something_else_is_named(answer: Answer) -> None:
    with scripted(answer) as (client, _), pytest.raises(Unavailable, match=client.url):
        client.health()


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    waits: list[float] = []
    with (
        Client(url, "t", sleep=waits.append) as client,
        pytest.raises(Unavailable, match=url) as raised,
    ):
        client.stop_job("a", Stop())
    assert "xmcloud up" in str(raised.value)
    assert len(waits) == ATTEMPTS - 1
