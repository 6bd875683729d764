"""Units that help others end after them, and not before there was anything to help."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.functions.groups import ask, end, now, start, states
from tests.functions.states import COMPLETED, RUNNING
from tests.support.clock import ManualClock
from tests.support.recording import Recording
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState, ReasonCode
from xmcloud.core.protocol import Jobs, NewUnit, NewUnits

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(recorded_api: Api) -> Api:
    return recorded_api


def helper(delay: float = 0, *names: str, queue: str | None = "default") -> NewUnit:
    jobs = tuple(new_job(name, queue) for name in names or ("board",))
    return NewUnit.model_validate({"jobs": jobs, "auxiliary": {"termination_delay_seconds": delay}})


def work(name: str = "train") -> NewUnit:
    return NewUnit(jobs=(new_job(name),))


async def added(api: Api, *units: NewUnit, to: str | None = None) -> list[Job]:
    experiment = to or (await api.experiment()).id
    body = NewUnits(units=units)
    return (await api.post(Jobs, f"/experiments/{experiment}/units", body, 201)).jobs


async def swept(api: Api, seconds: float = 0) -> None:
    api.clock.advance(seconds)
    await sweep(api.plane)


async def started(api: Api, **fields: Any) -> tuple[Any, list[Job]]:
    """A worker that runs all there is."""
    ant = await api.session("ant", slots=5)
    jobs = (await ask(api, ant, 5)).jobs
    await start(api, ant, *jobs)
    return ant, jobs


async def test_what_helps_ends_once_the_work_has_ended(api: Api) -> None:
    board, train = await added(api, helper(), work())
    ant, (board, train) = await started(api)
    await swept(api)
    assert (await api.sync(ant, watch_stops=True)).stops == []
    await end(api, ant, train, "failed")
    await swept(api)
    (order,) = (await api.sync(ant, watch_stops=True)).stops
    assert order.job_id == board.id
    assert order.message == "the units that it helps have ended"
    await end(api, ant, board, "stopped")
    (board,) = await now(api, [board])
    assert (board.state, board.reason.code) == (COMPLETED, ReasonCode.STOP_REQUESTED)


async def test_what_helps_goes_on_for_its_delay(api: Api) -> None:
    board, train = await added(api, helper(delay=20), work())
    ant, (board, train) = await started(api)
    await end(api, ant, train)
    await swept(api)
    (board,) = await now(api, [board])
    assert board.auxiliary is not None
    assert board.auxiliary.ends_at == api.clock.now() + timedelta(seconds=20)
    await swept(api, 19)
    assert (await api.sync(ant, watch_stops=True)).stops == []
    await swept(api, 1)
    assert len((await api.sync(ant, watch_stops=True)).stops) == 1


async def test_new_work_keeps_what_helps_alive(api: Api) -> None:
    board, train = await added(api, helper(delay=20), work())
    ant, (board, train) = await started(api)
    await end(api, ant, train)
    await swept(api)
    (more,) = await added(api, work("more"), to=board.experiment_id)
    await swept(api, 10)
    (board,) = await now(api, [board])
    assert board.auxiliary is not None
    assert board.auxiliary.ends_at is None
    (more,) = (await ask(api, ant, 1)).jobs
    await api.sync(ant)
    await end(api, ant, more)
    await swept(api)
    (board,) = await now(api, [board])
    assert board.auxiliary is not None
    assert board.auxiliary.ends_at == api.clock.now() + timedelta(seconds=20)


async def test_what_helps_does_not_end_before_there_was_work(api: Api) -> None:
    (board,) = await added(api, helper())
    await started(api)
    await swept(api)
    (board,) = await now(api, [board])
    assert (board.state, board.stop) == (RUNNING, None)


async def test_a_draft_is_no_work_yet_and_none_that_is_over(api: Api) -> None:
    (board,) = await added(api, helper())
    draft = NewUnit(jobs=(new_job("later", queue=None),))
    await added(api, draft, to=board.experiment_id)
    await started(api)
    await swept(api)
    assert (await now(api, [board]))[0].stop is None


async def test_the_work_of_other_experiments_does_not_count(api: Api) -> None:
    (board,) = await added(api, helper())
    (train,) = await added(api, work())
    ant, _ = await started(api)
    (train,) = await now(api, [train])
    await end(api, ant, train)
    await swept(api)
    assert (await now(api, [board]))[0].stop is None


async def test_what_never_started_ends_with_the_work_and_with_its_group(api: Api) -> None:
    *helpers, train = await added(api, helper(0, "a", "b"), work())
    await api.post(Job, f"/jobs/{train.id}/stop")
    await swept(api)
    assert await states(api, helpers) == [COMPLETED, COMPLETED]


async def test_what_helps_and_ends_by_itself_meanwhile_is_left_alone(
    api: Api, recording: Recording
) -> None:
    board, train = await added(api, helper(), work())
    ant, (board, train) = await started(api)
    await end(api, ant, train)

    async def ends() -> None:
        await end(api, ant, board, "failed")

    recording.once("store.count", ends)
    await swept(api)
    assert (await now(api, [board]))[0].state is JobState.FAILED


async def test_a_draft_that_helps_stays_a_draft(api: Api) -> None:
    board, train = await added(api, helper(queue=None), work())
    await api.post(Job, f"/jobs/{train.id}/stop")
    await swept(api)
    assert (await now(api, [board]))[0].state is JobState.DRAFT


async def test_the_sweep_looks_as_soon_as_there_is_what_helps(
    tmp_path: Path, anyio_backend: str
) -> None:
    clock, signals = ManualClock(), HeardSignals()
    alarms: list[tuple[str, datetime]] = []
    plane = replace(
        sqlite_plane(tmp_path, clock, signals), alarm=lambda what, due: alarms.append((what, due))
    )
    async with opened_api(plane, clock, signals, tmp_path) as api:
        await added(api, work())
        assert "auxiliary" not in dict(alarms)
        await added(api, helper())
        assert dict(alarms)["auxiliary"] <= clock.now()
