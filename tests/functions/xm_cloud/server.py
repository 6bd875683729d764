"""The real API on a real socket, and a worker that speaks to it as the test says."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from pydantic import JsonValue

from tests.support.builder import MemoryBuilder
from tests.support.platform import MemoryPlatform
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.files.secrets import FileSecrets
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.builds import Build
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane, Target
from xmcloud.core.models import Execution, Job
from xmcloud.core.platforms import BuilderJob, BuilderState
from xmcloud.core.worker_protocol import Lease, Pulled, SyncAnswer
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import ApiTokens, TokenFile

TOKEN = "test-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = 20.0
QUEUES = ("high", "default", "low")
CLAIM = {"slots": 4, "queues": QUEUES, "ports": tuple(range(9000, 9010))}


class FailingBuilder(MemoryBuilder):
    """Every build fails in its second step."""

    async def submit(self, build: Build) -> BuilderJob:
        job = await super().submit(build)
        told = {"step": "2/3 RUN pip", "message": "exit code 1", "tail": "no such package"}
        self.becomes(job.name, BuilderState.FAILED, **told)
        return self._jobs[job.name]


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """The address of an embedded control plane that runs in a thread."""
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o600)
    listener = socket.create_server(("127.0.0.1", 0))
    ready = threading.Event()
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        clock = SystemClock()
        plane = ControlPlane(
            store=SqliteStore(home / "store.db"),
            queue=SqliteQueue(home / "queue.db", clock),
            blobs=FileBlobs(home / "blobs"),
            secrets=FileSecrets(home),
            clock=clock,
            targets={name: Target(MemoryPlatform(name)) for name in ("vertex", "kubernetes")},
            builder=FailingBuilder(),
        )
        app = create_app(plane, [TokenFile(home / "token"), ApiTokens()])
        config = uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
        servers.append(uvicorn.Server(config))
        servers[0].install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        ready.set()
        await servers[0].serve([listener])
        await plane.store.close()
        await plane.queue.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        servers[0].should_exit = True
        thread.join()
        listener.close()


@dataclass(frozen=True)
class End:
    """How a job ends."""

    outcome: str = "completed"
    message: str = "exited"
    results: dict[str, JsonValue] = field(default_factory=dict)
    output: str = ""
    execution: Execution | None = None


class Worker:
    """Runs no process: each job it claims ends as `behave` says, or runs on if that is None."""

    def __init__(self, url: str, behave: Callable[[Job], End | None], pool: str = "local") -> None:
        self._http = httpx.Client(base_url=url, headers=HEADERS, timeout=SECONDS)
        self._behave = behave
        self._pool = pool
        self._stopped = False
        self._session = Lease.model_validate_json(
            self._post(f"/v1/workers/{pool}-worker/sessions", {"pool": pool, "slots": 4})
        ).session.id
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Worker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()
        self._http.close()

    def _post(self, path: str, body: Any) -> bytes:
        response = self._http.post(path, json=body)
        assert response.status_code < 300, response.text
        return response.content

    def _run(self) -> None:
        topics = [{"topic": f"queue-{queue}", "audience": self._pool} for queue in QUEUES]
        permit = {"subscriptions": topics}
        while not self._stopped:
            pulled = Pulled.model_validate_json(
                self._post("/v1/messages/pull", {**permit, "limit": 10, "wait_seconds": 0.2})
            )
            if pulled.deliveries:
                deliveries = [each.model_dump() for each in pulled.deliveries]
                self._post("/v1/messages/settle", {"deliveries": deliveries})
            while jobs := self._sync(claim=CLAIM).jobs:
                for job in jobs:
                    self._sync(reports=list(_reports(job, self._behave(job))))
            for order in self._sync(watch_stops=True).stops:
                attempt = {"job_id": order.job_id, "fence": order.fence}
                self._sync(reports=[_finished(attempt, End("stopped", order.message))])

    def _sync(self, **body: Any) -> SyncAnswer:
        return SyncAnswer.model_validate_json(
            self._post(f"/v1/sessions/{self._session}/sync", body)
        )


def _reports(job: Job, end: End | None) -> Iterator[dict[str, Any]]:
    from base64 import b64encode

    attempt = {"job_id": job.id, "fence": job.fence}
    ran = end.execution.model_dump() if end and end.execution else None
    yield {"event": "started", **attempt, "at": datetime.now(UTC).isoformat(), "execution": ran}
    if end is None:
        return
    if end.output:
        data = b64encode(end.output.encode()).decode()
        yield {"event": "output", **attempt, "offset": 0, "data": data}
    yield _finished(attempt, end)


def _finished(attempt: dict[str, Any], end: End) -> dict[str, Any]:
    return {
        "event": "finished",
        **attempt,
        "outcome": end.outcome,
        "reason": {"code": "exited", "message": end.message},
        "results": end.results,
    }
