"""Groups of jobs as tests make them and workers take them."""

from collections.abc import Sequence
from typing import Any

from tests.functions.api import Api, finished, new_job, started
from xmcloud.core.models import Job, JobState, Session
from xmcloud.core.protocol import Jobs, NewJob, NewUnit, NewUnits
from xmcloud.core.worker_protocol import SyncAnswer


async def add(api: Api, *units: Sequence[NewJob]) -> list[Job]:
    """The jobs of units of a new experiment."""
    experiment = await api.experiment()
    body = NewUnits(units=tuple(NewUnit(jobs=tuple(jobs)) for jobs in units))
    return (await api.post(Jobs, f"/experiments/{experiment.id}/units", body, 201)).jobs


async def group(api: Api, size: int, queue: str | None = "default", **spec: Any) -> list[Job]:
    """Equal jobs named a, b, c, ..."""
    return await add(api, [new_job(name, queue, **spec) for name in "abcdefgh"[:size]])


async def ask(api: Api, session: Session, slots: int, **fields: Any) -> SyncAnswer:
    """A claim of a worker with so many free slots, and a port for each."""
    claim = {"slots": slots, "queues": ("default",), "ports": range(7000, 7000 + slots)}
    return await api.sync(session, claim={**claim, **fields})


async def now(api: Api, jobs: Sequence[Job]) -> list[Job]:
    return [await api.get(Job, f"/jobs/{job.id}") for job in jobs]


async def states(api: Api, jobs: Sequence[Job]) -> list[JobState]:
    return [job.state for job in await now(api, jobs)]


async def start(api: Api, session: Session, *jobs: Job) -> None:
    """The session tells that they run."""
    await api.sync(session, reports=[started(job) for job in jobs])


async def end(api: Api, session: Session, job: Job, outcome: str = "completed") -> None:
    await api.sync(session, reports=[finished(job, outcome)])


async def two_workers(api: Api, slots: int = 1) -> tuple[Session, Session]:
    ant = await api.session("ant", slots=slots, host="ant.local")
    bee = await api.session("bee", slots=slots, host="bee.local", address="10.0.0.2")
    return ant, bee


async def running_on_two(api: Api, **spec: Any) -> tuple[list[Job], Session, Session]:
    """A group of two, a on ant and b on bee."""
    jobs = await group(api, 2, **spec)
    ant, bee = await two_workers(api)
    await ask(api, ant, 1)
    (b,) = (await ask(api, bee, 1)).jobs
    (a,) = (await api.sync(ant, known=())).jobs
    assert [a.id, b.id] == [job.id for job in jobs]
    await start(api, ant, a)
    await start(api, bee, b)
    return [a, b], ant, bee
