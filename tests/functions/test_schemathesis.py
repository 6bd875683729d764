"""Generated requests, valid and not, against the OpenAPI document."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from tests.functions.api import HEADERS, Api, HeardSignals, application, new_job, problem
from tests.support.clock import ManualClock
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.control.plane import ControlPlane

Case = schemathesis.Case[Any]

EXAMPLES = 40
"""For each operation; with 70 operations more than a thousand malformed requests."""

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


class HastyClock(ManualClock):
    """A clock on which nobody waits: each look at it takes a second."""

    def now(self) -> datetime:
        self.advance(1)
        return super().now()

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Service:
    """The API in an event loop of its own, with something of each kind in it."""

    def __init__(self, home: Path, runner: asyncio.Runner) -> None:
        self._runner = runner
        clock, signals = HastyClock(), HeardSignals()
        self.plane = ControlPlane(
            store=SqliteStore(home / "store.db"),
            queue=SqliteQueue(home / "queue.db", clock),
            blobs=FileBlobs(home / "blobs"),
            clock=clock,
            lease=timedelta(days=1000),
            look_again=timedelta(milliseconds=1),
            signals=signals,
        )
        app = application(self.plane, home)
        generation = {"with-security-parameters": False, "allow-extra-parameters": False}
        config = schemathesis.Config.from_dict({"generation": generation})
        self.schema = schemathesis.openapi.from_dict(app.openapi(), config=config)
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=HEADERS)
        http.base_url = httpx.URL("http://api")
        self.api = Api(http, self.plane, clock, signals, app)
        self.known = runner.run(self._populate())

    async def _populate(self) -> dict[str, str]:
        """What to name in the path of each kind of thing."""
        experiment = await self.api.experiment()
        session = await self.api.session()
        (job,) = await self.api.jobs(experiment, new_job())
        await self.api.running(job, session)
        (draft,) = await self.api.jobs(experiment, new_job(queue=None))
        return {
            "/v1/experiments/": experiment.id,
            "/v1/jobs/": draft.id,
            "/v1/sessions/": session.id,
        }

    def send(self, case: Case) -> httpx.Response:
        described = case.as_transport_kwargs(base_url="http://api")
        prepared = requests.Request(**described).prepare()
        headers: dict[str, Any] = dict(prepared.headers)
        body: Any = prepared.body
        request = httpx.Request(
            prepared.method or "",
            prepared.url or "",
            headers=headers | {"Authorization": HEADERS["Authorization"]},
            content=body,
        )
        return self._runner.run(self.api.http.send(request))

    def close(self) -> None:
        self._runner.run(self.api.http.aclose())
        self._runner.run(self.plane.queue.close())
        self._runner.run(self.plane.store.close())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with asyncio.Runner() as runner:
        service = Service(tmp_path, runner)
        yield service
        service.close()


def judge(case: Case, response: httpx.Response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400 and case.method != "HEAD":
        problem(response)
    case.validate_response(response, checks=CHECKS)


def explore(service: Service, operation: Any, answers: Counter[str]) -> None:
    known = [id for path, id in service.known.items() if operation.path.startswith(path)]
    valid, invalid = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.one_of(operation.as_strategy(valid), operation.as_strategy(invalid)),
        real=st.booleans(),
    )
    def run(case: Case, real: bool) -> None:
        if real and known and case.meta is not None and case.meta.generation.mode is valid:
            case.path_parameters = {"id": known[0]}
        response = service.send(case)
        answers["any"] += 1
        answers["malformed"] += case.meta is not None and case.meta.generation.mode is invalid
        answers[f"{response.status_code // 100}xx"] += 1
        judge(case, response)

    run()


@pytest.mark.slow
def test_generated_requests(service: Service) -> None:
    """No failure of the server, and every answer as documented."""
    answers: Counter[str] = Counter()
    for result in service.schema.get_all_operations():
        assert isinstance(result, Ok), result
        explore(service, result.ok(), answers)
    assert answers["malformed"] >= 1000
    assert answers["2xx"] >= 150
    assert answers["4xx"] >= 300
