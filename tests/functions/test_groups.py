"""Groups: they start whole or not at all, and what befalls one of their jobs befalls all."""

from datetime import timedelta
from itertools import permutations, product

import pytest

from tests.functions.api import Api, finished, new_job, started
from tests.functions.groups import (
    add,
    ask,
    end,
    group,
    now,
    running_on_two,
    start,
    states,
    two_workers,
)
from tests.functions.states import COMPLETED, FAILED, QUEUED, RUNNING, STARTING, STOPPED
from tests.support.recording import Recording
from xmcloud.core.control.gathering import HOLD
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode, Session
from xmcloud.core.worker_protocol import AttemptRef

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(recorded_api: Api) -> Api:
    return recorded_api


async def test_the_jobs_of_a_unit_are_a_group(api: Api) -> None:
    a, b, alone = await add(api, [new_job("a"), new_job("b")], [new_job("alone")])
    members = [(a.id, "a"), (b.id, "b")]
    assert [[(m.id, m.name) for m in job.group] for job in (a, b)] == [members, members]
    assert alone.group == ()
    assert [job.unit for job in (a, b, alone)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (new_job("a"), "two jobs of the unit are named 'a'"),
        (new_job("b", queue="low"), "one queue"),
        (new_job("b", pool="big"), "one pool"),
        (new_job("b", overflow={"target": "vertex", "after_seconds": 1}), "one overflow"),
    ],
    ids=["name", "queue", "pool", "overflow"],
)
async def test_a_group_waits_in_one_place(api: Api, second: object, why: str) -> None:
    experiment = await api.experiment()
    jobs = [job.model_dump(mode="json") for job in (new_job("a"), second)]  # type: ignore[attr-defined]
    path = f"/experiments/{experiment.id}/units"
    refusal = await api.refused("POST", path, 422, {"units": [{"jobs": jobs}]})
    assert why in refusal.detail


async def test_a_worker_takes_a_group_whole_with_ports_and_peers(api: Api) -> None:
    jobs = await group(api, 3)
    bee = await api.session("bee", slots=4, address="10.0.0.2")
    answer = await ask(api, bee, 4)
    assert [job.id for job in answer.jobs] == [job.id for job in jobs]
    assert answer.reservations == []
    for job in answer.jobs:
        assert job.attempt is not None
        peers = {name: (peer.host, peer.port) for name, peer in job.attempt.peers.items()}
        assert peers == {
            "a": ("10.0.0.2", 7000),
            "b": ("10.0.0.2", 7001),
            "c": ("10.0.0.2", 7002),
        }


async def test_what_is_too_much_for_one_worker_is_not_taken_in_part(api: Api) -> None:
    jobs = await group(api, 3)
    ant = await api.session("ant", slots=2)
    answer = await ask(api, ant, 2)
    assert (answer.jobs, answer.reservations) == ([], [])
    assert [queue.answer for queue in answer.queues] == ["unfit"]
    assert await states(api, jobs) == [QUEUED] * 3


async def test_a_group_gathers_on_two_workers_and_starts_at_once(api: Api) -> None:
    jobs = await group(api, 3, resources={"cpu": 1})
    ant = await api.session("ant", slots=2, resources={"cpu": 2}, host="ant.local")
    bee = await api.session("bee", slots=2, resources={"cpu": 2}, address="10.0.0.2")
    first = await ask(api, ant, 2, resources={"cpu": 2})
    assert first.jobs == []
    assert [(r.job_id, r.resources) for r in first.reservations] == [
        (job.id, {"cpu": 1}) for job in jobs[:2]
    ]
    assert first.reservations[0].seconds == HOLD.total_seconds()
    assert await states(api, jobs) == [QUEUED] * 3
    second = await ask(api, bee, 2, resources={"cpu": 2})
    assert ([job.id for job in second.jobs], second.reservations) == ([jobs[2].id], [])
    assert await states(api, jobs) == [STARTING] * 3
    mine = (await api.sync(ant, known=())).jobs
    assert {job.id for job in mine} == {job.id for job in jobs[:2]}
    expected = {"a": ("ant.local", 7000), "b": ("ant.local", 7001), "c": ("10.0.0.2", 7000)}
    for job in (*mine, *second.jobs):
        assert job.attempt is not None
        assert {name: (p.host, p.port) for name, p in job.attempt.peers.items()} == expected
    known = [AttemptRef(job_id=job.id, fence=job.fence) for job in mine]
    assert (await api.sync(ant, known=known)).jobs == []


async def test_who_keeps_a_place_hears_when_the_group_is_whole(api: Api) -> None:
    await group(api, 2)
    ant, bee = await two_workers(api)
    await ask(api, ant, 1)
    subscription = {"topic": "control", "audience": f"session-{ant.id}"}
    pull = {"subscriptions": [subscription], "limit": 1}
    assert (await api.call("POST", "/messages/pull", pull)).json() == {"deliveries": []}
    await ask(api, bee, 1)
    (told,) = (await api.call("POST", "/messages/pull", pull)).json()["deliveries"]
    assert told["body"] == "news"


async def test_a_place_that_an_answer_told_in_vain_is_told_again(api: Api) -> None:
    jobs = await group(api, 2)
    ant, _ = await two_workers(api)
    (lost,) = (await ask(api, ant, 1)).reservations
    api.clock.advance(5)
    (again,) = (await api.sync(ant, known=())).reservations
    assert (again.job_id, again.seconds) == (jobs[0].id, lost.seconds - 5)
    api.clock.advance(HOLD - timedelta(seconds=5))
    assert (await api.sync(ant, known=())).reservations == []


async def test_whoever_keeps_places_and_has_room_left_takes_others_besides(api: Api) -> None:
    jobs = await add(api, [new_job(name) for name in "abcd"], [new_job("alone")])
    ant, bee = await two_workers(api, slots=3)
    assert len((await ask(api, ant, 3)).reservations) == 3
    answer = await ask(api, bee, 3)
    assert [job.name for job in answer.jobs] == ["d", "alone"]
    assert await states(api, jobs) == [STARTING] * 5


async def test_at_its_deadline_a_gathering_lets_others_go_first(api: Api) -> None:
    """And the second time it holds on for twice as long."""
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("c"), new_job("d")])
    ant, bee = await two_workers(api)
    both = set()
    (kept,) = (await ask(api, ant, 1)).reservations
    both.add(kept.job_id)
    api.clock.advance(HOLD)
    ant, bee = await two_workers(api)
    (others,) = (await ask(api, ant, 1)).reservations
    assert (kept.job_id, others.job_id) == (jobs[0].id, jobs[2].id)
    api.clock.advance(HOLD)
    ant, bee = await two_workers(api)
    (again,) = (await ask(api, bee, 1)).reservations
    assert (again.job_id, again.seconds) == (jobs[0].id, 2 * HOLD.total_seconds())
    assert await states(api, jobs) == [QUEUED] * 4
    (b,) = (await ask(api, ant, 1)).jobs
    assert b.id == jobs[1].id


async def test_a_group_that_rests_lets_single_jobs_run(api: Api) -> None:
    jobs = await add(api, [new_job("a"), new_job("b")], [new_job("alone")])
    ant, _ = await two_workers(api)
    assert len((await ask(api, ant, 1)).reservations) == 1
    api.clock.advance(HOLD)
    ant, _ = await two_workers(api)
    assert [job.name for job in (await ask(api, ant, 1)).jobs] == ["alone"]
    assert await states(api, jobs) == [QUEUED, QUEUED, STARTING]


async def _finish_in_turns(api: Api, jobs: list[Job], turns: list[str]) -> None:
    """Workers of two slots ask in turn, end what they run, and wait when nothing moves."""
    sessions = dict(zip(("ant", "bee"), await two_workers(api, slots=2), strict=True))
    kept: dict[str, dict[str, float]] = {"ant": {}, "bee": {}}
    for turn in range(40):
        for name in turns:
            session, seconds = sessions[name], api.clock.now().timestamp()
            held = {id: end for id, end in kept[name].items() if end > seconds}
            answer = await api.sync(session, known=())
            held = {id: end for id, end in held.items() if id not in {j.id for j in answer.jobs}}
            free = 2 - len(held) - len(answer.jobs)
            taken = list(answer.jobs)
            if free:
                claimed = await ask(api, session, free)
                taken += claimed.jobs
                held |= {r.job_id: seconds + r.seconds for r in claimed.reservations}
            kept[name] = held
            for job in taken:
                await end(api, session, job)
        if set(await states(api, jobs)) == {COMPLETED}:
            return
        api.clock.advance(5 if turn % 2 else 3)
    raise AssertionError(f"not all are done: {await states(api, jobs)}")


@pytest.mark.parametrize(
    "turns", sorted({order for order in product(("ant", "bee"), repeat=3) if len(set(order)) == 2})
)
async def test_two_groups_that_need_everything_both_finish(api: Api, turns: list[str]) -> None:
    jobs = await add(api, [new_job(name) for name in "abcd"], [new_job(name) for name in "efgh"])
    await _finish_in_turns(api, jobs, turns)


async def test_the_places_of_a_lost_worker_are_found_elsewhere(api: Api) -> None:
    jobs = await group(api, 2)
    ant, bee = await two_workers(api)
    assert len((await ask(api, ant, 1)).reservations) == 1
    await api.post(Session, f"/sessions/{ant.id}/close")
    (kept,) = (await ask(api, bee, 1)).reservations
    assert kept.job_id == jobs[0].id
    cat = await api.session("cat", slots=1)
    assert [job.id for job in (await ask(api, cat, 1)).jobs] == [jobs[1].id]
    assert await states(api, jobs) == [STARTING, STARTING]


async def test_the_places_of_a_worker_whose_lease_is_over_do_not_count(api: Api) -> None:
    jobs = await group(api, 2)
    ant, bee = await two_workers(api)
    api.clock.advance(api.plane.lease - timedelta(seconds=5))
    await api.sync(bee)
    assert len((await ask(api, await api.session("cat", slots=1), 1)).reservations) == 1
    api.clock.advance(5)
    await api.refused("POST", f"/sessions/{ant.id}/sync", 409, {})
    assert len((await ask(api, bee, 1)).jobs) == 1
    assert await states(api, jobs) == [STARTING, STARTING]


async def test_a_group_that_the_pool_could_never_hold_lets_those_behind_it_run(api: Api) -> None:
    jobs = await add(api, [new_job(name) for name in "abc"], [new_job("alone")])
    ant, bee = await two_workers(api)
    assert [job.name for job in (await ask(api, ant, 1)).jobs] == ["alone"]
    answer = await ask(api, bee, 1)
    assert (answer.jobs, answer.reservations) == ([], [])
    assert await states(api, jobs) == [QUEUED] * 3 + [STARTING]


@pytest.mark.parametrize("order", list(permutations(("ant", "bee"))))
@pytest.mark.parametrize("names", ["ab", "ba"])
async def test_jobs_find_the_worker_that_each_needs(
    api: Api, order: tuple[str, str], names: str
) -> None:
    """Though both could run on the better one."""
    needs = {"a": {"cpu": 1.0}, "b": {"gpu": 1.0}}
    has = {"ant": {"cpu": 1.0, "gpu": 1.0}, "bee": {"cpu": 1.0}}
    jobs = await add(api, [new_job(name, resources=needs[name]) for name in names])
    sessions = {n: await api.session(n, slots=1, resources=has[n]) for n in ("ant", "bee")}
    for name in order:
        await ask(api, sessions[name], 1, resources=has[name])
    assert await states(api, jobs) == [STARTING, STARTING]


@pytest.mark.parametrize("outcome", ["failed", "stopped"])
async def test_when_one_job_ends_badly_the_others_are_stopped(api: Api, outcome: str) -> None:
    (a, b), ant, bee = await running_on_two(api)
    await end(api, ant, a, outcome)
    (order,) = (await api.sync(bee, watch_stops=True)).stops
    assert (order.job_id, order.message) == (b.id, f"job a {outcome}: {outcome}")
    await end(api, bee, b, "stopped")
    a, b = await now(api, [a, b])
    assert (a.state, b.state) == (JobState(outcome), STOPPED)
    assert b.reason.code is ReasonCode.GROUP_STOPPED
    assert f"job a {outcome}" in b.reason.message


async def test_what_ends_well_leaves_the_others_alone(api: Api) -> None:
    (a, b), ant, bee = await running_on_two(api)
    await end(api, ant, a)
    assert (await api.sync(bee, watch_stops=True)).stops == []
    assert await states(api, [a, b]) == [COMPLETED, RUNNING]


async def test_who_completes_though_it_was_to_stop_has_completed(api: Api) -> None:
    (a, b), ant, bee = await running_on_two(api)
    await end(api, ant, a, "failed")
    await end(api, bee, b)
    assert await states(api, [a, b]) == [FAILED, COMPLETED]


async def test_a_lost_job_takes_the_others_back_uncounted(api: Api) -> None:
    (a, b), ant, bee = await running_on_two(api)
    await api.post(Session, f"/sessions/{ant.id}/close")
    assert await states(api, [a, b]) == [QUEUED, RUNNING]
    cat = await api.session("cat", slots=2)
    waiting = await ask(api, cat, 2)
    assert (waiting.jobs, waiting.reservations) == ([], [])
    (order,) = (await api.sync(bee, watch_stops=True)).stops
    assert order.job_id == b.id
    await end(api, bee, b, "stopped")
    a, b = await now(api, [a, b])
    assert [(j.state, j.losses, j.failures) for j in (a, b)] == [(QUEUED, 1, 0), (QUEUED, 0, 0)]
    assert b.attempts[-1].outcome is Outcome.RELEASED
    assert b.reason.code is ReasonCode.GROUP_RESTARTED
    assert "job a is run again" in b.reason.message
    assert [job.id for job in (await ask(api, cat, 2)).jobs] == [a.id, b.id]


async def test_a_worker_lost_with_all_of_a_group_counts_once(api: Api) -> None:
    jobs = await group(api, 3)
    ant = await api.session("ant", slots=3)
    await start(api, ant, *(await ask(api, ant, 3)).jobs)
    await api.post(Session, f"/sessions/{ant.id}/close")
    again = await now(api, jobs)
    assert [job.state for job in again] == [QUEUED] * 3
    assert sum(job.losses for job in again) == 1


async def test_a_retry_takes_the_others_back_and_what_completed_stays(api: Api) -> None:
    jobs = await group(api, 3, limits={"retries": 1})
    ant = await api.session("ant", slots=3)
    a, b, c = (await ask(api, ant, 3)).jobs
    await start(api, ant, a, b, c)
    await end(api, ant, a)
    await end(api, ant, b, "failed")
    await end(api, ant, c, "stopped")
    assert await states(api, jobs) == [COMPLETED, QUEUED, QUEUED]
    again = (await ask(api, ant, 3)).jobs
    assert [job.id for job in again] == [b.id, c.id]
    await end(api, ant, again[0])
    await end(api, ant, again[1])
    assert await states(api, jobs) == [COMPLETED] * 3


async def test_all_of_a_group_may_be_told_of_in_one_request(api: Api, recording: Recording) -> None:
    """And is written down in one commit."""
    await group(api, 2)
    ant = await api.session("ant", slots=2)
    a, b = (await ask(api, ant, 2)).jobs
    reports = [started(a), started(b), finished(a, "failed"), started(b)]
    recording.calls.clear()
    answer = await api.sync(ant, reports=reports)
    assert (recording.calls["store.commit"], recording.calls["store.apply"]) == (1, 0)
    assert [result.problem for result in answer.results] == [None] * 4
    assert await states(api, [a, b]) == [FAILED, RUNNING]
