"""The HTTP API as tests speak to it: requests in, answers parsed by the protocol's models."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from tests.support.clock import ManualClock
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.models import Experiment, Job, Session
from xmcloud.core.protocol import Jobs, NewJob, NewUnit, NewUnits, Problem
from xmcloud.core.signals import Signals
from xmcloud.core.specs import Command, JobSpec
from xmcloud.core.worker_protocol import Lease, Sync, SyncAnswer
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import ApiTokens, TokenFile
from xmcloud.functions.http.rates import Rates
from xmcloud.functions.observability.readiness import Readiness

M = TypeVar("M", bound=BaseModel)

TOKEN = "test-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


@dataclass(frozen=True)
class Api:
    """A client of the API, and what is behind it."""

    http: httpx.AsyncClient
    plane: ControlPlane
    clock: ManualClock
    signals: "HeardSignals"
    app: FastAPI

    async def call(
        self, method: str, path: str, body: object = None, status: int = 200, **more: Any
    ) -> httpx.Response:
        """The answer, which must have that status; a model or JSON is sent as the body."""
        if isinstance(body, BaseModel):
            more |= {"content": body.model_dump_json()}
        elif body is not None:
            more |= {"json": body}
        response = await self.http.request(method, f"/v1{path}", **more)
        assert response.status_code == status, f"{method} {path}: {response.text}"
        return response

    async def get(self, model: type[M], path: str, **query: str | float) -> M:
        return model.model_validate_json((await self.call("GET", path, params=query)).content)

    async def post(
        self, model: type[M], path: str, body: object = None, status: int = 200, **more: Any
    ) -> M:
        answer = await self.call("POST", path, {} if body is None else body, status, **more)
        return model.model_validate_json(answer.content)

    async def pages_of_jobs(self, path: str) -> list[list[str]]:
        """Their names, two to a page."""
        pages: list[list[str]] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self.get(Jobs, path, limit=2, **cursor)
            pages.append([job.name for job in page.jobs])
            if page.cursor is None:
                return pages
            cursor = {"cursor": page.cursor}

    async def refused(
        self, method: str, path: str, status: int, body: object = None, **more: Any
    ) -> Problem:
        return problem(await self.call(method, path, body, status, **more))

    async def experiment(self, title: str = "An experiment") -> Experiment:
        return await self.post(Experiment, "/experiments", {"title": title}, 201)

    async def jobs(self, experiment: Experiment, *jobs: NewJob) -> list[Job]:
        body = NewUnits(units=tuple(NewUnit(jobs=(job,)) for job in jobs))
        return (await self.post(Jobs, f"/experiments/{experiment.id}/units", body, 201)).jobs

    async def job(self, name: str = "train", queue: str | None = "default", **spec: Any) -> Job:
        """A job in an experiment of its own."""
        (job,) = await self.jobs(await self.experiment(), new_job(name, queue, **spec))
        return job

    async def session(self, worker: str = "ant", **fields: Any) -> Session:
        path = f"/workers/{worker}/sessions"
        return (await self.post(Lease, path, {"slots": 8, **fields}, 201)).session

    async def sync(self, session: Session, **fields: Any) -> SyncAnswer:
        return await self.post(SyncAnswer, f"/sessions/{session.id}/sync", Sync(**fields))

    async def claimed(self, session: Session, *queues: str) -> list[Job]:
        claim = {"slots": 8, "queues": queues or ("default",)}
        return (await self.sync(session, claim=claim)).jobs

    async def running(self, job: Job, session: Session) -> Job:
        """The job after the session claimed and started it."""
        (mine,) = [taken for taken in await self.claimed(session) if taken.id == job.id]
        await self.sync(session, reports=[started(mine)])
        return await self.get(Job, f"/jobs/{job.id}")

    async def ended(self, job: Job, session: Session, outcome: str = "completed") -> Job:
        """The job after the session ran it."""
        mine = await self.running(job, session)
        await self.sync(session, reports=[finished(mine, outcome)])
        return await self.get(Job, f"/jobs/{job.id}")


class HeardSignals(Signals):
    """Signals that tell when somebody has begun to listen."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator[Any]:
        async with super().listen(subject) as event:
            self.heard.set()
            yield event


def application(plane: ControlPlane, home: Path) -> FastAPI:
    """The API over that control plane; one application for all tests, since routes build late."""
    token = home / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    app = _application()
    app.state.plane, app.state.authenticators = plane, [TokenFile(token), ApiTokens()]
    app.state.readiness, app.state.rates = Readiness(), Rates()
    return app


@asynccontextmanager
async def opened_api(
    plane: ControlPlane, clock: ManualClock, signals: HeardSignals, home: Path
) -> AsyncIterator[Api]:
    """The plane is closed with it."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(plane.store.close)
        stack.push_async_callback(plane.queue.close)
        app = application(plane, home)
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://api", headers=HEADERS)
        http = await stack.enter_async_context(client)
        yield Api(http, plane, clock, signals, app)


@cache
def _application() -> FastAPI:
    return create_app(cast(ControlPlane, None), ())


def problem(response: httpx.Response) -> Problem:
    """The body of a refusal, which is a problem and has every part of one."""
    assert response.headers["content-type"] == "application/problem+json"
    found = Problem.model_validate_json(response.content)
    assert found.status == response.status_code
    assert found.type
    assert found.title
    assert found.detail
    return found


def new_job(name: str = "train", queue: str | None = "default", **spec: Any) -> NewJob:
    executable = Command(kind="command", command=("true",))
    return NewJob(name=name, queue=queue, spec=JobSpec(**{"executable": executable, **spec}))


def started(job: Job) -> dict[str, Any]:
    return {"event": "started", "job_id": job.id, "fence": job.fence, "at": "2030-01-01T00:00:00Z"}


def finished(job: Job, outcome: str = "completed", **results: Any) -> dict[str, Any]:
    reason = {"code": "exited", "message": outcome, "exit_code": int(outcome == "failed")}
    report = {"event": "finished", "job_id": job.id, "fence": job.fence, "outcome": outcome}
    return {**report, "reason": reason, "results": results}
