"""/v1/queues over HTTP."""

import pytest

from tests.functions.api import Api, new_job
from xmcloud.core.models import Job, QueueState
from xmcloud.core.protocol import Queues, QueueStatus

pytestmark = pytest.mark.anyio


async def test_the_queues_that_are_always_there(api: Api) -> None:
    found = (await api.get(Queues, "/queues")).queues
    assert [status.queue.name for status in found] == ["high", "default", "low"]
    assert {(status.waiting, status.oldest) for status in found} == {(0, None)}


async def test_a_new_queue(api: Api) -> None:
    body = {"name": "nightly", "priority": 70}
    made = await api.post(QueueState, "/queues", body, 201)
    assert (made.name, made.priority, made.paused) == ("nightly", 70, False)
    found = (await api.get(Queues, "/queues")).queues
    assert [status.queue.name for status in found] == ["high", "nightly", "default", "low"]
    for name in ("nightly", "default"):
        refusal = await api.refused("POST", "/queues", 409, {"name": name})
        assert refusal.type == "urn:xmcloud:problem:already-exists"
        assert refusal.detail == f"There is already a queue '{name}'."
    job = await api.job(queue="nightly")
    session = await api.session(queues=["nightly"])
    assert [taken.id for taken in await api.claimed(session, "nightly")] == [job.id]


@pytest.mark.parametrize("name", ["", "Nightly", "a b", "-a", "a-", "a" * 64, "ä", "a/b", 3, None])
async def test_a_name_that_is_none(api: Api, name: object) -> None:
    found = await api.refused("POST", "/queues", 422, {"name": name})
    assert found.field == "body.name"


@pytest.mark.parametrize("priority", [-1, 1001, 1.5, "high"])
async def test_a_priority_that_is_none(api: Api, priority: object) -> None:
    found = await api.refused("POST", "/queues", 422, {"name": "a", "priority": priority})
    assert found.field == "body.priority"


async def test_a_queue_says_how_much_waits_and_how_long(api: Api) -> None:
    first = await api.job()
    api.clock.advance(60)
    await api.job()
    status = await api.get(QueueStatus, "/queues/default")
    assert (status.waiting, status.oldest) == (2, first.updated_at)


async def test_pages_of_what_waits_in_order(api: Api) -> None:
    experiment = await api.experiment()
    jobs = await api.jobs(experiment, *(new_job(f"job {number}") for number in range(5)))
    await api.post(Job, f"/jobs/{jobs[4].id}/move", {"to": "front"})
    names = await api.pages_of_jobs("/queues/default/jobs")
    assert names == [["job 4", "job 0"], ["job 1", "job 2"], ["job 3"]]


async def test_nothing_is_claimed_from_a_paused_queue(api: Api) -> None:
    job, session = await api.job(), await api.session()
    paused = await api.post(QueueState, "/queues/default/pause", {"by": "ada"})
    assert paused.paused
    assert (await api.get(QueueStatus, "/queues/default")).queue == paused
    claim = {"slots": 1, "queues": ["default"]}
    answer = await api.sync(session, claim=claim)
    assert [(queue.name, queue.answer) for queue in answer.queues] == [("default", "paused")]
    resumed = await api.post(QueueState, "/queues/default/resume", {})
    assert not resumed.paused
    assert [taken.id for taken in (await api.sync(session, claim=claim)).jobs] == [job.id]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/queues/nightly"),
        ("GET", "/queues/nightly/jobs"),
        ("POST", "/queues/nightly/pause"),
        ("POST", "/queues/nightly/resume"),
    ],
)
async def test_a_queue_that_is_not_there(api: Api, method: str, path: str) -> None:
    found = await api.refused(method, path, 404)
    assert found.detail == "There is no queue 'nightly'."
    found = await api.refused(method, path.replace("nightly", "Not%20a%20name"), 422)
    assert found.field == "path.name"
