"""What people do to groups: to all of their jobs at once."""

from typing import Any

import pytest

from tests.functions.api import Api, new_job
from tests.functions.groups import (
    add,
    ask,
    end,
    group,
    now,
    running_on_two,
    states,
    two_workers,
)
from tests.functions.states import COMPLETED, DRAFT, FAILED, QUEUED, RUNNING, STARTING, STOPPED
from tests.support.recording import Recording
from xmcloud.core.models import Experiment, Job, ReasonCode
from xmcloud.core.protocol import Acted, Jobs

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(recorded_api: Api) -> Api:
    return recorded_api


async def test_a_stop_is_of_the_whole_group(api: Api) -> None:
    jobs = await group(api, 2)
    await api.post(Job, f"/jobs/{jobs[1].id}/stop", {"by": "ann"})
    assert await states(api, jobs) == [STOPPED, STOPPED]
    assert {job.reason.code for job in await now(api, jobs)} == {ReasonCode.STOP_REQUESTED}


async def test_a_stop_reaches_all_workers_of_a_group(api: Api) -> None:
    (a, b), ant, bee = await running_on_two(api)
    await api.post(Job, f"/jobs/{a.id}/stop", {"by": "ann", "message": "enough"})
    for session, job in ((ant, a), (bee, b)):
        (order,) = (await api.sync(session, watch_stops=True)).stops
        assert (order.job_id, order.message) == (job.id, "enough")
        await end(api, session, job, "stopped")
    assert await states(api, [a, b]) == [STOPPED, STOPPED]


async def test_people_act_on_a_group_as_one(api: Api) -> None:
    jobs = await group(api, 2, queue=None)
    a, b = (f"/jobs/{job.id}" for job in jobs)
    await api.post(Job, f"{b}/enqueue", {"queue": "low"})
    assert [(j.state, j.queue) for j in await now(api, jobs)] == [(QUEUED, "low")] * 2
    first, second = await now(api, jobs)
    assert first.position < second.position
    await api.post(Job, f"{b}/move", {"to": "front", "queue": "high"})
    first, second = await now(api, jobs)
    assert (first.queue, second.queue) == ("high", "high")
    assert first.position < second.position
    await api.post(Job, f"{a}/dequeue")
    assert await states(api, jobs) == [DRAFT, DRAFT]
    await api.post(Job, f"{a}/stop")
    await api.post(Job, f"{b}/reset")
    assert await states(api, jobs) == [DRAFT, DRAFT]


async def test_what_failed_is_enqueued_with_its_group_and_what_completed_stays(api: Api) -> None:
    jobs = await group(api, 3)
    ant = await api.session("ant", slots=3)
    a, b, c = (await ask(api, ant, 3)).jobs
    await end(api, ant, a)
    await end(api, ant, b, "failed")
    await end(api, ant, c, "stopped")
    await api.post(Job, f"/jobs/{b.id}/enqueue")
    assert await states(api, jobs) == [COMPLETED, QUEUED, QUEUED]
    assert [job.id for job in (await ask(api, ant, 3)).jobs] == [b.id, c.id]


async def test_a_group_of_which_a_job_still_stops_is_not_enqueued(api: Api) -> None:
    """It would be taken out of the queue again when that job has ended."""
    jobs, first, second = await running_on_two(api)
    await end(api, first, jobs[0], "failed")
    assert await states(api, jobs) == [FAILED, RUNNING]
    refusal = await api.refused("POST", f"/jobs/{jobs[0].id}/enqueue", 409, {"by": "ann"})
    assert "it is running" in refusal.detail
    await end(api, second, jobs[1], "failed")
    await api.post(Job, f"/jobs/{jobs[0].id}/enqueue", {"by": "ann"})
    assert await states(api, jobs) == [QUEUED, QUEUED]


async def test_an_action_on_the_experiment_tells_of_every_job_of_a_group(api: Api) -> None:
    jobs = await group(api, 2, queue=None)
    path = f"/experiments/{jobs[0].experiment_id}"
    for action, state in (("enqueue", QUEUED), ("stop", STOPPED), ("reset", DRAFT)):
        acted = await api.post(Acted, f"{path}/{action}")
        assert {job.id for job in acted.jobs} == {job.id for job in jobs}
        assert acted.skipped == []
        assert await states(api, jobs) == [state, state]
    acted = await api.post(Acted, f"{path}/dequeue")
    assert (acted.jobs, len(acted.skipped)) == ([], 2)


async def test_the_clone_of_a_job_is_that_of_its_group(api: Api) -> None:
    flags = {"a": 1, "b": 2}
    jobs = await add(
        api,
        [new_job(n, arguments=[{"name": f"only-{n}", "value": v}]) for n, v in flags.items()],
    )
    changes = {"arguments": {"only-b": 3}}
    copy = await api.post(Experiment, f"/jobs/{jobs[1].id}/clone", changes, 201)
    copies = (await api.get(Jobs, f"/experiments/{copy.id}/jobs")).jobs
    copies.sort(key=lambda job: job.name)
    assert [(c.name, c.cloned_from, c.state) for c in copies] == [
        (job.name, job.id, DRAFT) for job in jobs
    ]
    assert [[m.id for m in c.group] for c in copies] == [[c.id for c in copies]] * 2
    assert [c.spec.arguments[0].value for c in copies] == [1, 3]


async def test_a_single_job_passes_a_group_as_one(api: Api) -> None:
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("alone")])
    ant = await api.session("ant", slots=1)
    await api.post(Job, f"/jobs/{jobs[2].id}/move", {"to": "up"})
    await api.session("bee", slots=1)
    assert [job.name for job in (await ask(api, ant, 1)).jobs] == ["alone"]


async def test_a_single_job_lets_a_group_pass_as_one(api: Api) -> None:
    jobs = await add(api, [new_job("alone")], [new_job("a"), new_job("b")])
    await api.post(Job, f"/jobs/{jobs[0].id}/move", {"to": "down"})
    ant = await api.session("ant", slots=2)
    assert [job.name for job in (await ask(api, ant, 2)).jobs] == ["a", "b"]
    waiting = await api.get(Jobs, "/queues/default/jobs")
    assert [job.name for job in waiting.jobs] == ["alone"]


@pytest.mark.parametrize("to", ["up", "down"])
async def test_a_group_moves_to_an_end_of_its_queue_only(api: Api, to: str) -> None:
    jobs = await group(api, 2)
    refusal = await api.refused("POST", f"/jobs/{jobs[0].id}/move", 422, {"to": to})
    assert "front or back for a job of a group" in refusal.detail + refusal.remedy


async def test_a_group_that_is_stopped_while_it_gathers_never_starts(api: Api) -> None:
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("alone")])
    ant, bee = await two_workers(api)
    assert len((await ask(api, ant, 1)).reservations) == 1
    await api.post(Job, f"/jobs/{jobs[0].id}/stop")
    assert [job.name for job in (await ask(api, bee, 1)).jobs] == ["alone"]
    assert (await api.sync(ant, known=())).reservations == []
    assert await states(api, jobs) == [STOPPED, STOPPED, STARTING]


async def test_a_gathering_that_nobody_needs_any_more_does_not_hold_up_others(api: Api) -> None:
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("c"), new_job("d")])
    ant, bee = await two_workers(api)
    cat = await api.session("cat", slots=1)
    assert len((await ask(api, ant, 1)).reservations) == 1
    await api.post(Job, f"/jobs/{jobs[0].id}/dequeue")
    assert len((await ask(api, bee, 1)).reservations) == 1
    assert [job.name for job in (await ask(api, cat, 1)).jobs] == ["d"]


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_group_that_is_stopped_while_it_is_claimed_is_left_alone(
    api: Api, recording: Recording, slots: int
) -> None:
    """The claim that would complete it comes too late, and takes what is behind it."""
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("alone")])
    ant, bee = await two_workers(api, slots)
    if slots == 1:
        await ask(api, ant, 1)
    recording.once("store.commit", lambda: api.post(Job, f"/jobs/{jobs[0].id}/stop"))
    answer = await ask(api, bee, slots)
    assert ([job.name for job in answer.jobs], answer.reservations) == (["alone"], [])
    assert await states(api, jobs) == [STOPPED, STOPPED, STARTING]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "b"}, "name"),
        ({"spec": {"pool": "big"}}, "spec.pool"),
        ({"spec": {"overflow": {"target": "cloud", "after_seconds": 1}}}, "spec.overflow"),
    ],
)
async def test_no_edit_sets_a_job_apart_from_its_group(
    api: Api, change: dict[str, Any], field: str
) -> None:
    a, _ = await group(api, 2, queue=None)
    if "spec" in change:
        change = {"spec": {**a.spec.model_dump(mode="json"), **change["spec"]}}
    assert (await api.refused("PATCH", f"/jobs/{a.id}", 422, change)).field == field
    same = {"name": "a", "spec": {**a.spec.model_dump(mode="json"), "resources": {"cpu": 1}}}
    edited = await api.call("PATCH", f"/jobs/{a.id}", same)
    assert Job.model_validate_json(edited.content).spec.resources == {"cpu": 1}
