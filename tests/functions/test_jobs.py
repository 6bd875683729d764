"""/v1/jobs over HTTP."""

import json
from typing import Any

import pytest

from tests.functions.api import Api, new_job
from xmcloud.core.models import Experiment, Job, JobState, Outcome, ReasonCode
from xmcloud.core.protocol import Jobs

pytestmark = pytest.mark.anyio


async def test_a_draft_is_edited(api: Api) -> None:
    job = await api.job(queue=None)
    api.clock.advance(1)
    renamed = Job.model_validate_json(
        (await api.call("PATCH", f"/jobs/{job.id}", {"name": "again"})).content
    )
    assert (renamed.name, renamed.spec) == ("again", job.spec)
    spec = new_job(pool="gpu").spec
    body = {"spec": spec.model_dump(mode="json")}
    edited = Job.model_validate_json((await api.call("PATCH", f"/jobs/{job.id}", body)).content)
    assert (edited.name, edited.spec) == ("again", spec)
    assert await api.get(Job, f"/jobs/{job.id}") == edited


async def test_only_a_draft_is_edited(api: Api) -> None:
    job = await api.job()
    found = await api.refused("PATCH", f"/jobs/{job.id}", 409, {"name": "again"})
    assert found.type == "urn:xmcloud:problem:illegal-transition"
    assert found.title == "Not possible in this state"
    assert found.detail == f"Cannot edit job {job.full_name}: it is queued."
    assert found.remedy == "That is possible from: draft."


async def test_in_and_out_of_the_queue(api: Api) -> None:
    job = await api.job(queue=None)
    queued = await api.post(Job, f"/jobs/{job.id}/enqueue", {"by": "ada", "queue": "high"})
    assert (queued.state, queued.queue) == (JobState.QUEUED, "high")
    assert queued.reason.message == "enqueued by ada"
    found = await api.refused("POST", f"/jobs/{job.id}/enqueue", 409, {})
    assert found.remedy == "That is possible from: draft, stopped, failed."
    draft = await api.post(Job, f"/jobs/{job.id}/dequeue", {"by": "bob"})
    assert draft.state is JobState.DRAFT
    assert draft.reason.message == "taken out of high by bob"
    await api.refused("POST", f"/jobs/{job.id}/dequeue", 409, {})
    found = await api.refused("POST", f"/jobs/{job.id}/enqueue", 404, {"queue": "nightly"})
    assert found.detail == "There is no queue 'nightly'."


@pytest.mark.parametrize("outcome", ["stopped", "failed", "completed"])
async def test_a_waiting_job_stops_at_once(api: Api, outcome: str) -> None:
    job = await api.job()
    body = {"by": "ada", "message": "enough", "outcome": outcome}
    ended = await api.post(Job, f"/jobs/{job.id}/stop", body)
    assert ended.state == outcome
    assert (ended.reason.code, ended.reason.message) == (
        ReasonCode.STOP_REQUESTED, "stopped by ada: enough",
    )  # fmt: skip
    found = await api.refused("POST", f"/jobs/{job.id}/stop", 409, body)
    assert f"it is {outcome}" in found.detail


@pytest.mark.parametrize("outcome", ["lost", "released", "", None])
async def test_an_end_that_nobody_may_ask_for(api: Api, outcome: str | None) -> None:
    job = await api.job()
    found = await api.refused("POST", f"/jobs/{job.id}/stop", 422, {"outcome": outcome})
    assert found.field == "body.outcome"


async def test_a_running_job_is_asked_to_stop(api: Api) -> None:
    session = await api.session()
    job = await api.running(await api.job(), session)
    asked = await api.post(Job, f"/jobs/{job.id}/stop", {"by": "ada"})
    assert (asked.state, asked.stop and asked.stop.by) == (JobState.RUNNING, "ada")
    assert await api.post(Job, f"/jobs/{job.id}/stop", {"by": "bob"}) == asked


async def test_reset_clears_what_a_run_left(api: Api) -> None:
    job = await api.ended(await api.job(), await api.session(), "failed")
    assert (job.state, len(job.attempts)) == (JobState.FAILED, 1)
    draft = await api.post(Job, f"/jobs/{job.id}/reset", {"by": "ada"})
    assert (draft.state, draft.attempts, draft.results) == (JobState.DRAFT, (), {})
    assert draft.fence == job.fence
    queued = await api.job()
    await api.refused("POST", f"/jobs/{queued.id}/reset", 409, {})


async def test_a_clone_of_one_job(api: Api) -> None:
    job = await api.job("train", arguments=[{"name": "lr", "value": 1}])
    key = {"Idempotency-Key": "clone"}
    body = {"title": "Again", "arguments": {"lr": 0.5}}
    clone = await api.post(Experiment, f"/jobs/{job.id}/clone", body, 201, headers=key)
    assert await api.post(Experiment, f"/jobs/{job.id}/clone", body, 201, headers=key) == clone
    (copy,) = (await api.get(Jobs, f"/experiments/{clone.id}/jobs")).jobs
    assert (copy.name, copy.state, copy.cloned_from) == ("train", JobState.DRAFT, job.id)
    assert copy.spec.arguments[0].value == 0.5
    found = await api.refused("POST", f"/jobs/{job.id}/clone", 422, {"title": "Other"}, headers=key)
    assert found.type == "urn:xmcloud:problem:idempotency-key-reused"


async def order(api: Api, queue: str = "default") -> list[str]:
    return [job.name for job in (await api.get(Jobs, f"/queues/{queue}/jobs")).jobs]


async def test_moving_within_a_queue(api: Api) -> None:
    experiment = await api.experiment()
    jobs = await api.jobs(experiment, *(new_job(name) for name in "abcd"))
    ids = {job.name: job.id for job in jobs}

    async def moved(name: str, to: str) -> str:
        await api.post(Job, f"/jobs/{ids[name]}/move", {"to": to})
        return "".join(await order(api))

    assert await moved("c", "front") == "cabd"
    assert await moved("a", "back") == "cbda"
    assert await moved("d", "up") == "cdba"
    assert await moved("c", "down") == "dcba"
    assert await moved("d", "up") == "dcba"
    assert await moved("a", "down") == "dcba"


async def test_moving_to_another_queue(api: Api) -> None:
    experiment = await api.experiment()
    first, second = await api.jobs(experiment, new_job("a"), new_job("b", "high"))
    for to, expected in (("front", ["a", "b"]), ("back", ["b", "a"])):
        moved = await api.post(Job, f"/jobs/{first.id}/move", {"to": to, "queue": "high"})
        assert moved.queue == "high"
        assert await order(api, "high") == expected
        await api.post(Job, f"/jobs/{first.id}/move", {"queue": "default"})
    found = await api.refused("POST", f"/jobs/{first.id}/move", 422, {"to": "up", "queue": "high"})
    assert found.field == "to"
    await api.refused("POST", f"/jobs/{first.id}/move", 404, {"queue": "nightly"})
    found = await api.refused("POST", f"/jobs/{first.id}/move", 422, {"to": "top"})
    assert found.field == "body.to"
    await api.post(Job, f"/jobs/{second.id}/stop", {})
    for to in ("front", "up"):
        await api.refused("POST", f"/jobs/{second.id}/move", 409, {"to": to})


ACTIONS: dict[str, dict[str, Any]] = {
    "stop": {}, "reset": {}, "enqueue": {}, "dequeue": {}, "move": {}, "clone": {},
}  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_job_that_is_not_there(api: Api, action: str) -> None:
    found = await api.refused("POST", f"/jobs/{'d' * 16}/{action}", 404, ACTIONS[action])
    assert found.detail == f"There is no job '{'d' * 16}'."
    for method in ("GET", "PATCH"):
        await api.refused(method, f"/jobs/{'d' * 16}", 404, {})


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "a/b",
        "../../etc/passwd",
        "🦊 fox",
        "e" * 300,
        "'; DROP TABLE jobs; --",
        '"quoted"',
        "%2F%00",
        "ünïcödé",
        "\u202eright to left",
        "$(rm -rf /)",
    ],
)
async def test_names_are_kept_as_they_are(api: Api, name: str) -> None:
    experiment = await api.experiment(name)
    (job,) = await api.jobs(experiment, new_job(name))
    assert (experiment.title, job.name) == (name, name)
    assert (await api.get(Job, f"/jobs/{job.id}")).name == name
    assert await order(api) == [name]


VALUES: list[Any] = [
    None, True, False, 0, -1, 1.0, 0.1, 1e300, 2**70, "", "1", "true", " a b ", "é🦊", [],
    [1, 1.0, "1", None, True, [2]], {}, {"a": {"b": [1.5]}}, "\u2028", "a=b", "--flag",
]  # fmt: skip


async def test_values_keep_their_types(api: Api) -> None:
    arguments = [{"name": "flag", "value": value} for value in VALUES]
    arguments += [{"value": value} for value in VALUES]
    job = await api.job(arguments=arguments, environment={"LR": "0.1", "_x9": ""})
    answer = (await api.call("GET", f"/jobs/{job.id}")).json()
    found = [argument["value"] for argument in answer["spec"]["arguments"]]
    assert [(type(value), value) for value in found] == [
        (type(value), value) for value in (*VALUES, *VALUES)
    ]
    session = await api.session()
    (claimed,) = await api.claimed(session)
    assert claimed.spec == job.spec


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"deeper": [value]} if depth % 2 == 0 else [value]
    return value


@pytest.mark.parametrize(
    "value", ["\\u0000", "\\ud800", {"\\udfff": 1}, ["\\ud800"], nested(101), nested(120)]
)
async def test_values_that_nothing_could_read_again(api: Api, value: Any) -> None:
    spec = new_job(arguments=[{"value": 1}]).model_dump_json()
    text = json.dumps(value).replace("\\\\", "\\")
    body = f'{{"units":[{{"jobs":[{spec}]}}]}}'.replace('"value":1', f'"value":{text}')
    path = f"/experiments/{(await api.experiment()).id}/units"
    found = await api.refused("POST", path, 422, content=body)
    assert (found.field or "").startswith("body.units.0.jobs.0.spec.arguments.0.value")


async def test_values_nested_as_deep_as_may_be(api: Api) -> None:
    job = await api.job(arguments=[{"value": nested(99)}])
    mine = await api.running(job, await api.session())
    assert mine.spec == job.spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"environment": {"1A": "x"}}, "environment.1A.[key]"),
        ({"environment": {"A": "a\0b"}}, "environment.A"),
        ({"resources": {"cpu": 0}}, "resources.cpu"),
        ({"resources": {"CPU": 1}}, "resources.CPU.[key]"),
        ({"pool": "Not A Pool"}, "pool.constrained-str"),
        ({"limits": {"retries": 21}}, "limits.retries"),
        ({"executable": {"kind": "command", "command": ["a\0b"]}}, "executable.command.command.0"),
    ],
)
async def test_definitions_that_are_wrong(api: Api, spec: Any, field: str) -> None:
    job = await api.job(queue=None)
    whole = {"executable": {"kind": "command", "command": ["true"]}, **spec}
    found = await api.refused("PATCH", f"/jobs/{job.id}", 422, {"spec": whole})
    assert found.field == f"body.spec.{field}"


async def test_a_definition_that_is_too_large(api: Api) -> None:
    path = f"/experiments/{(await api.experiment()).id}/units"
    job = new_job(environment={"DATA": "x" * 600_000}).model_dump(mode="json")
    found = await api.refused("POST", path, 413, {"units": [{"jobs": [job]}]})
    assert found.type == "urn:xmcloud:problem:too-large"
    assert found.remedy == "Move large data to files or a bucket and pass its name."


async def test_a_job_that_fails_runs_again_while_retries_last(api: Api) -> None:
    session = await api.session()
    job = await api.job(limits={"retries": 1})
    again = await api.ended(job, session, "failed")
    assert (again.state, again.failures) == (JobState.QUEUED, 1)
    ended = await api.ended(job, session, "failed")
    assert (ended.state, ended.fence) == (JobState.FAILED, 2)
    assert [attempt.outcome for attempt in ended.attempts] == [Outcome.FAILED] * 2
