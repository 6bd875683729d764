"""Quotas of projects and people, from request to claim."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, finished, new_job, problem
from tests.functions.clouds import image, opened_cloud
from tests.functions.groups import ask, end, group, states
from tests.support.recording import Recording
from xmcloud.core.control.members import edit_project
from xmcloud.core.control.quota_cache import FRESH, QuotaCache
from xmcloud.core.control.quotas import wake_project
from xmcloud.core.identity import Quota
from xmcloud.core.member_protocol import EditProject
from xmcloud.core.models import Experiment, Job, JobState, Session
from xmcloud.core.platforms import PlatformState
from xmcloud.core.ports import Query, Subscription
from xmcloud.core.protocol import (
    CauseCode,
    Jobs,
    NewUnit,
    NewUnits,
    Pending,
    PendingExperiment,
)
from xmcloud.core.topics import permit_subscription

pytestmark = pytest.mark.anyio
PERMITS = [permit_subscription("default", "local")]
HOUR = timedelta(hours=1)


@pytest.fixture
def api(recorded_api: Api) -> Api:
    """On SQLite."""
    return recorded_api


async def quota(api: Api, project: str = "default", **limits: Any) -> None:
    """Of the project; `person` is a person's."""
    person = limits.pop("person", {})
    body = {"quota": limits, "person_quota": person}
    await api.call("PATCH", f"/projects/{project}", body)


async def experiment(api: Api, project: str = "default", creator: str = "ann") -> Experiment:
    body = {"title": "e", "project": project, "creator": creator}
    return await api.post(Experiment, "/experiments", body, 201)


async def waiting(api: Api, count: int, made: Experiment | None = None, **spec: Any) -> list[Job]:
    made = made or await experiment(api)
    api.clock.advance(timedelta(microseconds=1))
    return await api.jobs(made, *(new_job(f"job-{n}", **spec) for n in range(count)))


async def two_projects(api: Api) -> tuple[Experiment, Experiment]:
    await api.call("POST", "/projects", {"name": "vision"}, 201)
    return await experiment(api, "vision"), await experiment(api)


async def claim(api: Api, session: Session, slots: int = 8, **fields: Any) -> tuple[list[Job], str]:
    answer = await ask(api, session, slots, **fields)
    (queue,) = answer.queues
    return answer.jobs, queue.answer


def ids(jobs: Sequence[Job]) -> list[str]:
    return [job.id for job in jobs]


# Queued


async def test_too_many_queued_are_refused_whole(api: Api) -> None:
    await quota(api, queued=3)
    made = await experiment(api)
    await waiting(api, 2, made)
    body = NewUnits(units=tuple(NewUnit(jobs=(new_job(name),)) for name in "ab"))
    found = await api.refused("POST", f"/experiments/{made.id}/units", 409, body)
    assert found.type == "urn:xmcloud:problem:over-quota"
    assert "has 2 of 3 jobs queued; this asks for 2 jobs more" in found.detail
    assert "xmcloud project quota default" in (found.remedy or "")
    assert len((await api.get(Jobs, f"/experiments/{made.id}/jobs")).jobs) == 2
    drafts = await api.jobs(made, *(new_job(name, None) for name in "cd"))
    assert {job.state for job in drafts} == {JobState.DRAFT}
    await waiting(api, 1, made)
    for path in (f"/jobs/{drafts[0].id}/enqueue", f"/experiments/{made.id}/enqueue"):
        found = await api.refused("POST", path, 409, {"by": "ann", "queue": "default"})
        assert "has 3 of 3 jobs queued" in found.detail
    assert await states(api, drafts) == [JobState.DRAFT, JobState.DRAFT]


async def test_what_was_let_in_is_answered_again(api: Api) -> None:
    await quota(api, queued=1)
    made = await experiment(api)
    body = NewUnits(units=(NewUnit(jobs=(new_job(),)),))
    path, key = f"/experiments/{made.id}/units", {"Idempotency-Key": "k"}
    first = await api.post(Jobs, path, body, 201, headers=key)
    assert await api.post(Jobs, path, body, 201, headers=key) == first
    other = NewUnits(units=(NewUnit(jobs=(new_job("other"),)),))
    found = problem(await api.call("POST", path, other, 422, headers=key))
    assert found.type == "urn:xmcloud:problem:idempotency-key-reused"


async def test_a_clone_into_a_queue_is_refused_before_anything_is_made(api: Api) -> None:
    made = await experiment(api)
    await api.jobs(made, *(new_job(name, None) for name in "abc"))
    await quota(api, queued=3)
    path = f"/experiments/{made.id}/clone"
    body = {"creator": "ann", "queue": "default"}
    twice = [await api.post(Experiment, path, body, 201, headers={"Idempotency-Key": "k"})]
    twice += [await api.post(Experiment, path, body, 201, headers={"Idempotency-Key": "k"})]
    assert twice[0] == twice[1]
    found = await api.refused("POST", path, 409, body)
    assert "this asks for 3 jobs more" in found.detail
    assert len((await api.call("GET", "/experiments")).json()["experiments"]) == 2


async def test_a_person_has_a_quota_of_his_own(api: Api) -> None:
    await quota(api, queued=10, person={"queued": 1})
    ann, bob = await experiment(api), await experiment(api, creator="bob")
    await waiting(api, 1, ann)
    await waiting(api, 1, bob)
    body = NewUnits(units=(NewUnit(jobs=(new_job(),)),))
    found = await api.refused("POST", f"/experiments/{bob.id}/units", 409, body)
    assert found.detail.startswith("Bob has 1 of 1 jobs queued in project default;")


# Running


async def test_no_more_run_than_the_quota_and_the_next_starts_when_one_ends(api: Api) -> None:
    await quota(api, running=2)
    jobs = await waiting(api, 4)
    ant, bee = await api.session("ant"), await api.session("bee")
    taken, left = await claim(api, ant)
    assert (ids(taken), left) == (ids(jobs[:2]), "unfit")
    assert await claim(api, bee) == ([], "unfit")
    while await api.plane.queue.pull(PERMITS, 10, 0):
        pass
    await end(api, ant, taken[0])
    (permit,) = await api.plane.queue.pull(PERMITS, 10, 0)
    assert permit.message.body == jobs[2].id
    assert (ids((await claim(api, bee))[0]), left) == ([jobs[2].id], "unfit")


async def test_other_projects_go_past_one_that_is_full(api: Api) -> None:
    vision, default = await two_projects(api)
    await quota(api, "vision", running=1)
    full = await waiting(api, 2, vision)
    free = await waiting(api, 2, default)
    taken, left = await claim(api, await api.session())
    assert (ids(taken), left) == ([full[0].id, *ids(free)], "unfit")


async def test_also_past_more_than_a_claim_looks_at(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmcloud.core.control.claims.PASSED_OVER", 5)
    vision, default = await two_projects(api)
    await quota(api, "vision", running=1)
    full = await waiting(api, 8, vision)
    free = await waiting(api, 2, default)
    taken, _ = await claim(api, await api.session(), 2)
    assert ids(taken) == [full[0].id, free[0].id]


@pytest.mark.parametrize(("name", "limit"), [("WRITES_LIMIT", 3), ("COMMIT_LIMIT", 12_000)])
async def test_a_claim_of_more_than_one_commit_takes_takes_several(
    api: Api, recording: Recording, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(f"xmcloud.core.control.claims.{name}", limit)
    await quota(api, running=5)
    jobs = await waiting(api, 7)
    ant = await api.session()
    recording.calls.clear()
    taken, _ = await claim(api, ant)
    assert sorted(ids(taken)) == sorted(ids(jobs[:5]))
    assert recording.calls["store.commit"] == 3


async def test_people_have_theirs_and_one_who_has_enough_holds_up_nobody(api: Api) -> None:
    await quota(api, person={"running": 1})
    ann = await waiting(api, 2, await experiment(api))
    bob = await waiting(api, 2, await experiment(api, creator="bob"))
    taken, _ = await claim(api, await api.session())
    assert ids(taken) == [ann[0].id, bob[0].id]


async def test_a_group_counts_with_all_its_jobs(api: Api) -> None:
    await quota(api, running=3)
    first = await group(api, 2)
    api.clock.advance(timedelta(microseconds=1))
    second = await group(api, 2)
    alone = await waiting(api, 2)
    ant = await api.session()
    taken, left = await claim(api, ant)
    assert (ids(taken), left) == ([*ids(first), alone[0].id], "unfit")
    why = await api.get(Pending, f"/jobs/{second[0].id}/pending")
    assert why.causes[0].message == (
        "project default runs 3 of 3 jobs, and its group needs 2 at once"
    )
    for job in taken:
        await end(api, ant, job)
    assert ids((await claim(api, ant))[0]) == [*ids(second), alone[1].id]


async def test_a_worker_for_one_job_is_told_why_it_may_not_run(api: Api) -> None:
    await quota(api, running=1)
    (draft,) = await api.jobs(await experiment(api), new_job(queue=None))
    await waiting(api, 1)
    ant = await api.session()
    taken, _ = await claim(api, ant)
    body = {"claim": {"slots": 1, "queues": ["default"], "only": draft.id}}
    found = await api.refused("POST", f"/sessions/{ant.id}/sync", 409, body)
    assert found.detail == (
        "Project default runs 1 of 1 jobs; this asks for 1 job more, and the quota running is 1."
    )
    assert await states(api, [draft]) == [JobState.DRAFT]
    await end(api, ant, taken[0])
    (again,) = (await api.sync(ant, **body)).jobs
    assert again.id == draft.id


async def test_a_higher_quota_wakes_the_workers_at_once(api: Api) -> None:
    await quota(api, running=1)
    await waiting(api, 2)
    ant = await api.session()
    await claim(api, ant)
    while await api.plane.queue.pull(PERMITS, 10, 0):
        pass
    await quota(api, running=2)
    assert len(await api.plane.queue.pull(PERMITS, 10, 0)) == 1
    assert len((await claim(api, ant))[0]) == 1


async def test_a_permit_goes_to_every_queue_and_pool_where_something_waits(api: Api) -> None:
    made = await experiment(api)
    await api.call("POST", "/queues", {"name": "night", "priority": 1}, 201)
    await api.jobs(
        made, new_job(), new_job(), new_job(pool="big"), new_job(queue="night", pool="big")
    )
    audiences = {"default": ("local", "big"), "night": ("local", "big")}
    lines = [Subscription(f"queue-{q}", pool) for q, pools in audiences.items() for pool in pools]
    await api.plane.queue.subscribe(lines)
    await wake_project(api.plane, "default")
    found = {line: len(await api.plane.queue.pull([line], 10, 0)) for line in lines}
    assert list(found.values()) == [1, 2, 0, 1]


async def test_a_target_gets_what_the_quota_allows_and_others_go_past(
    tmp_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmcloud.core.control.dispatch.LOOKED_AT", 4)
    async with opened_cloud(tmp_path) as cloud:
        cloud.allow(limit=10)
        vision, default = await two_projects(cloud.api)
        await quota(cloud.api, "vision", running=1)
        full = await cloud.api.jobs(vision, *(image(f"v-{n}") for n in range(6)))
        cloud.api.clock.advance(timedelta(microseconds=1))
        free = await cloud.api.jobs(default, *(image(f"d-{n}") for n in range(2)))
        assert await cloud.dispatch() == 3
        assert await states(cloud.api, [full[0], *free]) == [JobState.STARTING] * 3
        permits = [permit_subscription("default", "cloud")]
        await cloud.api.plane.queue.subscribe(permits)
        await cloud.becomes(full[0], PlatformState.SUCCEEDED)
        assert [p.message.body for p in await cloud.api.plane.queue.pull(permits, 9, 0)]
        await cloud.dispatch()
        assert await states(cloud.api, full[:3]) == [
            JobState.COMPLETED,
            JobState.STARTING,
            JobState.QUEUED,
        ]


# GPU-hours


async def test_when_the_hours_are_used_up_gpus_are_refused_and_the_rest_goes_on(api: Api) -> None:
    await quota(api, gpu_hours=2)
    made = await experiment(api)
    first, second = await waiting(api, 2, made, resources={"gpu": 2})
    (cpu,) = await waiting(api, 1, made)
    ant = await api.session()
    has = {"gpu": 2, "cpu": 8}
    taken, _ = await claim(api, ant, resources=has)
    assert ids(taken) == [first.id, cpu.id]
    api.clock.advance(HOUR)
    ant = await api.session()
    taken, left = await claim(api, ant, resources=has)
    assert left == "unfit"
    assert second.id not in ids(taken)
    why = await api.get(PendingExperiment, f"/experiments/{made.id}/pending")
    assert [(p.causes[0].code, p.causes[0].message) for p in why.pending] == [
        (CauseCode.OVER_QUOTA, "project default has used 2.0 of 2 GPU-hours of 2030-01")
    ]
    body = NewUnits(units=(NewUnit(jobs=(new_job(resources={"t4": 1}),)),))
    found = await api.refused("POST", f"/experiments/{made.id}/units", 409, body)
    assert "this asks for 1 job with GPUs more, and the quota gpu_hours is 2" in found.detail
    await waiting(api, 1, made)
    api.clock.advance(timedelta(days=31))
    assert (await waiting(api, 1, made, resources={"t4": 1}))[0].state is JobState.QUEUED
    taken, _ = await claim(api, await api.session("bee"), resources=has)
    assert first.id in ids(taken)


async def test_an_attempt_is_entered_in_the_commit_that_ends_it(
    api: Api, recording: Recording
) -> None:
    jobs = [
        *await waiting(api, 2, resources={"gpu": 1}),
        *await group(api, 2),
        *await waiting(api, 1),
    ]
    ant = await api.session(slots=8, resources={"gpu": 2})
    taken, _ = await claim(api, ant, resources={"gpu": 2})
    assert len(taken) == len(jobs)
    api.clock.advance(timedelta(seconds=9))
    recording.calls.clear()
    reports = [finished(job) for job in taken]
    answer = await api.sync(ant, reports=[*reports, *reports])
    assert [result.problem is None for result in answer.results] == [True] * 5 + [False] * 5
    page = await api.plane.store.find(Query("usage"))
    assert sorted(str(d.data["gpu_seconds"]) for d in page.documents) == ["9.0", "9.0"]
    total = await api.plane.store.total(Query("usage"), "gpu_seconds")
    assert total == 18


async def test_a_lost_attempt_is_entered_and_what_comes_back_counts_once(api: Api) -> None:
    (job,) = await waiting(api, 1, resources={"gpu": 1})
    ant = await api.session()
    await claim(api, ant, resources={"gpu": 1})
    api.clock.advance(timedelta(seconds=20))
    await api.call("POST", f"/sessions/{ant.id}/close", {})
    assert await api.plane.store.total(Query("usage"), "gpu_seconds") == 20
    again = await api.session(holds=[{"job_id": job.id, "fence": 1}])
    assert await api.plane.store.total(Query("usage"), "gpu_seconds") == 0
    api.clock.advance(timedelta(seconds=10))
    await end(api, again, job.evolve(fence=1))
    assert await api.plane.store.total(Query("usage"), "gpu_seconds") == 30


# Cost


async def test_without_quotas_nothing_is_counted(api: Api, recording: Recording) -> None:
    jobs = await waiting(api, 2, resources={"gpu": 1})
    ant = await api.session()
    recording.calls.clear()
    for _ in range(2):
        (job,) = (await claim(api, ant, resources={"gpu": 1}))[0]
        await end(api, ant, job)
    assert recording.calls["store.count"] + recording.calls["store.total"] == 0
    assert {q.collection for q in recording.queries} <= {"jobs", "queues", "projects", "sessions"}
    assert await states(api, jobs) == [JobState.COMPLETED] * 2


async def test_a_quota_that_another_process_set_is_noticed_in_seconds(api: Api) -> None:
    await waiting(api, 2)
    ant = await api.session()
    assert len((await claim(api, ant, 1))[0]) == 1
    other = replace(api.plane, quotas=QuotaCache())
    await edit_project(other, "default", EditProject(quota=Quota(running=1)))
    api.clock.advance(FRESH)
    assert await claim(api, ant, 1) == ([], "unfit")
