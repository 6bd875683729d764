"""The control plane is killed between any two of its lines: no job is lost, none runs twice."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests.faults.driver import Factory, Scenario, Servers, factory
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.experiments import job_pages
from xmcloud.core.control.logs import read_log
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sweep import sweep
from xmcloud.core.lifecycle import UNCONFIRMED
from xmcloud.core.models import Job
from xmcloud.core.ports import Subscription
from xmcloud.functions import wiring

SCENARIOS = {"sqlite": 12, "gcp": 4}
DEATHS = 4
"""In each scenario; every server after the first dies too, until they are used up."""

EXPECTED = {
    "a": ("completed", ["completed"]),
    "stopped": ("stopped", []),
    "moved": ("completed", ["failed", "completed"]),
    "lost": ("completed", ["lost", "released", "completed"]),
    "running": ("stopped", ["stopped"]),
    "waiting": ("queued", []),
}


class LaterClock(SystemClock):
    """When every permit that was not confirmed is due."""

    def now(self) -> datetime:
        return super().now() + UNCONFIRMED + timedelta(seconds=1)


class Backend:
    """Where the servers keep things."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.name: str = request.param
        self._folder = folder
        self.environ = {"XMCLOUD_PROFILE": "embedded", "XMCLOUD_LEASE_SECONDS": "600"}
        if self.name == "gcp":
            emulators = request.getfixturevalue("emulators")
            bucket = f"bucket-{secrets.token_hex(8)}"
            self.environ |= emulators.environment()
            self.environ |= {"XMCLOUD_PROFILE": "gcp", "XMCLOUD_BUCKET": bucket}

    def fresh(self) -> tuple[Path, dict[str, str]]:
        """A new home, and the variables of a server with nothing in its store."""
        home = self._folder / secrets.token_hex(8)
        project = {"GOOGLE_CLOUD_PROJECT": f"test-{secrets.token_hex(8)}"}
        return home, self.environ | project


@contextmanager
def later(home: Path, environ: dict[str, str]) -> Iterator[None]:
    """The environment of the servers, at the time when the sweep takes care of the rest."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.setenv("XMCLOUD_HOME", str(home))
        patch.setattr(wiring, "SystemClock", LaterClock)
        yield


@pytest.fixture(scope="module", params=["sqlite", pytest.param("gcp", marks=pytest.mark.emulator)])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    return Backend(request, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def servers_of(backend: Backend) -> Iterator[Factory]:
    with factory(backend.environ) as made:
        yield made


def play(
    backend: Backend, made: Factory, deaths: tuple[int, ...] = (), shuffled: int | None = None
) -> tuple[int, int]:
    """How many servers died, and how many lines the last one ran."""
    home, environ = backend.fresh()
    servers = Servers(made, home, environ, deaths, shuffled)
    scenario = Scenario(servers)
    experiment = scenario.play()
    lines = servers.end()
    assert all(count == 1 for count in Counter(scenario.accepted).values())
    with later(home, environ):
        asyncio.run(check(experiment))
    return servers.died, lines


async def check(experiment: str) -> None:
    """Everything ended as it should; what still waits has a permit, once the sweep has run."""
    plane = wiring.build_service().plane
    await sweep(plane)
    jobs = [stored.item async for page in job_pages(plane, experiment) for stored in page]
    found = {job.name: (job.state, [attempt.outcome for attempt in job.attempts]) for job in jobs}
    assert found == EXPECTED
    assert [job.unit for job in jobs] == [1, 2, 3, 4, 5, 6]
    for job in jobs:
        assert [attempt.fence for attempt in job.attempts] == [
            number + 1 for number in range(job.fence)
        ]
        if job.name in ("a", "lost"):
            await check_output(plane, job)
    permits = Subscription("queue-low", "local")
    deliveries = await plane.queue.pull([permits], 100, 5)
    assert {delivery.message.body for delivery in deliveries} == {jobs[-1].id}
    await plane.queue.close()
    await plane.store.close()


async def check_output(plane: ControlPlane, job: Job) -> None:
    log = await read_log(plane, job.id, job.fence, 0, 0)
    assert (log.data, log.complete) == (b"one two", True)
    assert job.results == {"name": job.name}


@pytest.fixture(scope="module")
def lines(backend: Backend, servers_of: Factory) -> int:
    """How many lines the scenario takes when nobody is killed."""
    died, lines = play(backend, servers_of)
    assert died == 0
    assert lines > 1000
    return lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "number"),
    [
        *(("sqlite", number) for number in range(SCENARIOS["sqlite"])),
        *(pytest.param("gcp", n, marks=pytest.mark.emulator) for n in range(SCENARIOS["gcp"])),
    ],
    indirect=["backend"],
)
def test_killed_anywhere(backend: Backend, servers_of: Factory, lines: int, number: int) -> None:
    """The first death falls into another part of the scenario each time, the others anywhere."""
    random = Random(number)
    part = lines // SCENARIOS[backend.name]
    first = number * part + random.randrange(1, part)
    died, _ = play(
        backend, servers_of, (first, *(random.randrange(1, part) for _ in range(DEATHS - 1)))
    )
    assert died >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_permits_that_come_twice_and_in_any_order(
    backend: Backend, servers_of: Factory, seed: int
) -> None:
    play(backend, servers_of, shuffled=seed)
