"""A client, two workers and the servers that die under them."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from tests.faults.server import Order
from tests.functions.api import HEADERS, TOKEN, finished, new_job, started
from xmcloud.core.models import Job

ROOT = Path(__file__).parents[2]


@dataclass
class Factory:
    """The process that servers are forked from."""

    port: int
    _process: subprocess.Popen[str]

    def start(self, order: Order) -> int:
        """The id of the new server's process."""
        self._input.write(f"{order.line()}\n")
        self._input.flush()
        return int(self._news()["pid"])

    def ended(self) -> int:
        """How the server ended, once it has."""
        return int(self._news()["ended"])

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _news(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        news: dict[str, Any] = json.loads(self._process.stdout.readline())
        return news


@contextmanager
def factory(environ: Mapping[str, str]) -> Iterator[Factory]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.server"],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield Factory(json.loads(process.stdout.readline())["port"], process)


class Servers:
    """One server after the other over the same home: each dies at the next of `deaths`.

    A thread starts the next when one died; requests made meanwhile wait for it.
    """

    def __init__(
        self,
        factory: Factory,
        home: Path,
        environ: Mapping[str, str],
        deaths: Sequence[int] = (),
        shuffled: int | None = None,
    ) -> None:
        home.mkdir()
        (home / "token").write_text(TOKEN)
        (home / "token").chmod(0o600)
        self.home, self.died = home, 0
        self._factory, self._shuffled = factory, shuffled
        self._environ = {**environ, "XMCLOUD_HOME": str(home)}
        self._deaths = list(deaths)
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{factory.port}/v1", headers=HEADERS, timeout=30
        )
        self._lock, self._ending = threading.Lock(), False
        self._pid = self._start()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def _start(self) -> int:
        dies_at = self._deaths.pop(0) if self._deaths else 0
        return self._factory.start(Order(self._environ, dies_at, self._shuffled))

    def _keep(self) -> None:
        while True:
            ended = self._factory.ended()
            with self._lock:
                self.died += ended == -signal.SIGKILL
                if ended != -signal.SIGKILL or self._ending:
                    return
                self._pid = self._start()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> "Answer":
        """Asks until there is an answer; a server that died is followed by the next."""
        asked_again = False
        while (response := self.ask_once(method, path, body, **headers)) is None:
            asked_again = True
        return Answer(response, asked_again)

    def ask_once(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> httpx.Response | None:
        """None when the server died before it answered."""
        try:
            response = self._client.request(method, path, json=body, headers=headers)
        except httpx.TransportError:
            assert self._keeper.is_alive(), "a server ended by itself"
            return None
        assert response.status_code < 500, response.text
        return response

    def end(self) -> int:
        """The lines that the last server ran, if it ended in peace."""
        self._client.close()
        with self._lock, suppress(ProcessLookupError):
            self._ending = True
            os.kill(self._pid, signal.SIGTERM)
        self._keeper.join()
        lines = self.home / "lines"
        return int(lines.read_text()) if lines.exists() else 0


@dataclass
class Answer:
    response: httpx.Response
    asked_again: bool

    def ok(self) -> Any:
        assert self.response.is_success, self.response.text
        return self.response.json() if self.response.content else None


@dataclass
class Worker:
    """Claims as workers do: asks at once, then waits for permits; knows what it holds."""

    servers: Servers
    name: str
    accepted: list[tuple[str, int]]
    held: dict[str, int] = field(default_factory=dict)
    session: str = ""

    def open(self) -> None:
        path = f"/workers/{self.name}/sessions"
        body = {"slots": 4, "queues": ["high", "default", "low"]}
        self.session = self.servers.ask("POST", path, body).ok()["session"]["id"]
        self.held = {}

    def close(self) -> None:
        self.servers.ask("POST", f"/sessions/{self.session}/close", {}).ok()

    def _claim(self, queue: str) -> list[Job]:
        """After an answer that got lost, asks for what it held; claims no second time."""
        path, claim = f"/sessions/{self.session}/sync", {"slots": 1, "queues": [queue]}
        response = self.servers.ask_once("POST", path, {"claim": claim})
        if response is None:
            known = [{"job_id": job, "fence": fence} for job, fence in self.held.items()]
            response = self.servers.ask("POST", path, {"known": known}).response
        assert response.is_success, response.text
        jobs = [Job.model_validate(job) for job in response.json()["jobs"]]
        self.held |= {job.id: job.fence for job in jobs}
        return jobs

    def stops(self) -> list[Any]:
        """Which of its attempts are to be stopped."""
        path = f"/sessions/{self.session}/sync"
        stops: list[Any] = self.servers.ask("POST", path, {"watch_stops": True}).ok()["stops"]
        return stops

    def take(self, queue: str, name: str) -> Job:
        """The next job of the queue, which must be that one."""
        for _ in range(20):
            jobs = self._claim(queue)
            if jobs:
                (job,) = jobs
                assert job.name == name
                return job
            self._wait_for_permit(queue)
        raise AssertionError(f"{name} never came")

    def _wait_for_permit(self, queue: str) -> None:
        permits = {"topic": f"queue-{queue}", "audience": "local"}
        body = {"subscriptions": [permits], "limit": 1, "wait_seconds": 2}
        deliveries = self.servers.ask("POST", "/messages/pull", body).ok()["deliveries"]
        if deliveries:
            self.servers.ask("POST", "/messages/settle", {"deliveries": deliveries}).ok()

    def start(self, job: Job) -> None:
        self._report(started(job))

    def say(self, job: Job, offset: int, data: bytes) -> None:
        report = {"event": "output", "job_id": job.id, "fence": job.fence, "offset": offset}
        self._report({**report, "data": base64.b64encode(data).decode()})

    def finish(self, job: Job, outcome: str, **results: Any) -> None:
        self.held.pop(job.id)
        self._report(finished(job, outcome, **results))

    def _report(self, report: dict[str, Any]) -> None:
        path = f"/sessions/{self.session}/sync"
        answer = self.servers.ask("POST", path, {"reports": [report]})
        (result,) = answer.ok()["results"]
        if result["problem"] is None:
            if report["event"] == "finished":
                self.accepted.append((report["job_id"], report["fence"]))
        else:
            assert result["problem"]["status"] == 409
            assert answer.asked_again, "only the answer to the first time may have got lost"


class Scenario:
    """What people and two workers do with six jobs, each step as often as it takes."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.accepted: list[tuple[str, int]] = []

    def play(self) -> str:
        """The id of the experiment."""
        ant = Worker(self._servers, "ant", self.accepted)
        bee = Worker(self._servers, "bee", self.accepted)
        ant.open()
        experiment = self._create()
        jobs = self._add(experiment)
        self._complete(ant, "a")
        self._act(jobs["stopped"], "stop", "stopped")
        self._servers.ask("POST", f"/jobs/{jobs['moved']}/move", {"queue": "high"}).ok()
        ant.start(ant.take("default", "lost"))
        ant.open()
        bee.open()
        self._release(ant, "lost")
        self._complete(bee, "lost")
        self._stop_running(bee, "running")
        self._retry(ant, "moved")
        ant.close()
        bee.close()
        return experiment

    def _create(self) -> str:
        body, key = {"title": "Faults"}, {"Idempotency-Key": "experiment"}
        id: str = self._servers.ask("POST", "/experiments", body, **key).ok()["id"]
        return id

    def _add(self, experiment: str) -> dict[str, str]:
        jobs = [
            new_job("a"),
            new_job("stopped"),
            new_job("moved", limits={"retries": 1}),
            new_job("lost"),
            new_job("running"),
            new_job("waiting", "low"),
        ]
        body = {"units": [{"jobs": [job.model_dump(mode="json")]} for job in jobs]}
        path, key = f"/experiments/{experiment}/units", {"Idempotency-Key": "units"}
        added = self._servers.ask("POST", path, body, **key).ok()["jobs"]
        return {job["name"]: job["id"] for job in added}

    def _act(self, job: str, action: str, state: str) -> None:
        """The action is refused the second time, when its first answer got lost."""
        answer = self._servers.ask("POST", f"/jobs/{job}/{action}", {})
        if answer.response.status_code == 409:
            assert answer.asked_again
            assert self._servers.ask("GET", f"/jobs/{job}").ok()["state"] == state
        else:
            assert answer.ok()["state"] == state

    def _complete(self, worker: Worker, name: str) -> None:
        job = worker.take("default", name)
        worker.start(job)
        worker.say(job, 0, b"one ")
        worker.say(job, 4, b"two")
        worker.finish(job, "completed", name=name)

    def _release(self, worker: Worker, name: str) -> None:
        job = worker.take("default", name)
        worker.start(job)
        worker.finish(job, "released")

    def _stop_running(self, worker: Worker, name: str) -> None:
        job = worker.take("default", name)
        worker.start(job)
        self._servers.ask("POST", f"/jobs/{job.id}/stop", {"message": "enough"}).ok()
        (order,) = worker.stops()
        assert order["job_id"] == job.id
        worker.finish(job, "failed")

    def _retry(self, worker: Worker, name: str) -> None:
        for outcome in ("failed", "completed"):
            job = worker.take("high", name)
            worker.start(job)
            worker.finish(job, outcome)
