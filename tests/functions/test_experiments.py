"""/v1/experiments over HTTP."""

import asyncio
import re
from collections import Counter

import pytest

from tests.functions.api import Api, new_job
from xmcloud.core.models import Experiment, Job, JobState
from xmcloud.core.protocol import Acted, Experiments, ExperimentStatus, Jobs, NewUnits

pytestmark = pytest.mark.anyio


async def test_create_and_read(api: Api) -> None:
    body = {"title": "Rates", "creator": "ada", "tags": ["digits"], "notes": "which?"}
    made = await api.post(Experiment, "/experiments", body, 201)
    assert re.fullmatch("[a-z2-7]{16}", made.id)
    assert (made.title, made.creator, made.tags, made.notes) == (
        "Rates", "ada", ("digits",), "which?",
    )  # fmt: skip
    assert made.created_at == api.clock.now()
    status = await api.get(ExperimentStatus, f"/experiments/{made.id}")
    assert status == ExperimentStatus(experiment=made, states={})


async def test_one_that_is_not_there(api: Api) -> None:
    found = await api.refused("GET", f"/experiments/{'a' * 16}", 404)
    assert found.type == "urn:xmcloud:problem:not-found"
    assert found.title == "Not found"
    assert found.detail == f"There is no experiment '{'a' * 16}'."


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body.title"),
        ({"title": ""}, "body.title"),
        ({"title": " "}, "body.title"),
        ({"title": "a\nb"}, "body.title"),
        ({"title": "a" * 1001}, "body.title"),
        ({"title": 3}, "body.title"),
        ({"title": "a", "creator": None}, "body.creator"),
        ({"title": "a", "tags": ["ok", ""]}, "body.tags.1"),
        ({"title": "a", "tags": ["x"] * 51}, "body.tags"),
        ({"title": "a", "notes": "n" * 20_001}, "body.notes"),
        ({"title": "a", "colour": "red"}, "body.colour"),
        ([], "body"),
    ],
)
async def test_fields_that_are_wrong(api: Api, body: object, field: str) -> None:
    found = await api.refused("POST", "/experiments", 422, body)
    assert found.type == "urn:xmcloud:problem:invalid-input"
    assert found.field == field
    assert found.detail.startswith(f"{field}: ")
    assert found.remedy


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_not_json(api: Api, content: bytes) -> None:
    response = await api.http.post("/v1/experiments", content=content)
    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == "application/problem+json"


async def test_the_same_key_gives_the_same_experiment(api: Api) -> None:
    key = {"Idempotency-Key": "one"}
    first = await api.post(Experiment, "/experiments", {"title": "a"}, 201, headers=key)
    api.clock.advance(60)
    again = await api.post(Experiment, "/experiments", {"title": "a"}, 201, headers=key)
    assert again == first
    other = await api.post(
        Experiment, "/experiments", {"title": "a"}, 201, headers={"Idempotency-Key": "two"}
    )
    assert other.id != first.id


async def test_the_same_key_with_another_body(api: Api) -> None:
    key = {"Idempotency-Key": "one"}
    await api.post(Experiment, "/experiments", {"title": "a"}, 201, headers=key)
    found = await api.refused("POST", "/experiments", 422, {"title": "b"}, headers=key)
    assert found.type == "urn:xmcloud:problem:idempotency-key-reused"
    assert "'one'" in found.detail


async def test_the_same_key_at_the_same_time(api: Api) -> None:
    key = {"Idempotency-Key": "one"}
    made = await asyncio.gather(
        *(api.post(Experiment, "/experiments", {"title": "a"}, 201, headers=key) for _ in range(8))
    )
    assert len({experiment.id for experiment in made}) == 1
    assert len((await api.get(Experiments, "/experiments")).experiments) == 1


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_that_is_none(api: Api, key: str) -> None:
    headers = {"Idempotency-Key": key}
    found = await api.refused("POST", "/experiments", 422, {"title": "a"}, headers=headers)
    assert found.field == "header.Idempotency-Key"


async def test_pages_of_experiments_from_the_newest(api: Api) -> None:
    made = []
    for number in range(5):
        made.append((await api.experiment(f"number {number}")).id)
        api.clock.advance(1)
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await api.get(Experiments, "/experiments", limit=2, **cursor)
        found.append([status.experiment.id for status in page.experiments])
        if page.cursor is None:
            break
        cursor = {"cursor": page.cursor}
    assert found == [made[4:2:-1], made[2:0:-1], made[0:1]]


@pytest.mark.parametrize("path", ["/experiments", "/queues/default/jobs"])
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%",
        "WzFd",  # [1]
        "W1tdLCJhIl0",  # [[],"a"]
        "W1tbMV1dLCJhIl0",  # [[[1]],"a"]
        "W1tOYU5dLCJhIl0",  # [[NaN],"a"]
        "W1siXHVkODAwIl0sICJhIl0",  # a surrogate
        "W1siMjAzMCJdLCAiXHVkODAwIl0",
        "W1siMjAzMCJdLCAiYS9iIl0",  # the id a/b
        "W1s5OTk5OTk5OTk5OTk5OTk5OTk5OTldLCJhIl0",  # a number of 73 bits
        "W1tb" * 450,  # arrays in arrays in arrays
    ],
)
async def test_a_cursor_that_was_never_given(api: Api, path: str, cursor: str) -> None:
    found = await api.refused("GET", path, 422, params={"cursor": cursor})
    assert found.field == "cursor"


@pytest.mark.parametrize("limit", ["0", "401", "many", "1.5", ""])
async def test_a_page_size_that_is_none(api: Api, limit: str) -> None:
    found = await api.refused("GET", "/experiments", 422, params={"limit": limit})
    assert found.field == "query.limit"


async def test_units_are_numbered_on(api: Api) -> None:
    experiment = await api.experiment()
    first = await api.jobs(experiment, new_job("a"), new_job("b", None))
    (third,) = await api.jobs(experiment, new_job("c"))
    assert [(job.name, job.unit, job.state) for job in (*first, third)] == [
        ("a", 1, JobState.QUEUED),
        ("b", 2, JobState.DRAFT),
        ("c", 3, JobState.QUEUED),
    ]
    status = await api.get(ExperimentStatus, f"/experiments/{experiment.id}")
    assert status.experiment.units == 3
    assert status.states == {JobState.QUEUED: 2, JobState.DRAFT: 1}


async def test_pages_of_jobs_in_order_of_unit(api: Api) -> None:
    experiment = await api.experiment()
    await api.jobs(experiment, *(new_job(f"job {number}") for number in range(5)))
    names = await api.pages_of_jobs(f"/experiments/{experiment.id}/jobs")
    assert names == [["job 0", "job 1"], ["job 2", "job 3"], ["job 4"]]


async def test_units_of_the_same_key_are_added_once(api: Api) -> None:
    path = f"/experiments/{(await api.experiment()).id}/units"
    key = {"Idempotency-Key": "units"}
    body = NewUnits.model_validate({"units": [{"jobs": [new_job(name)]} for name in "ab"]})
    batches = await asyncio.gather(
        *(api.post(Jobs, path, body, 201, headers=key) for _ in range(5))
    )
    assert len({tuple(job.id for job in batch.jobs) for batch in batches}) == 1
    other = NewUnits.model_validate({"units": [{"jobs": [new_job("c")]}]})
    found = await api.refused("POST", path, 422, other, headers=key)
    assert found.type == "urn:xmcloud:problem:idempotency-key-reused"
    assert len((await api.get(Jobs, path.replace("units", "jobs"))).jobs) == 2


async def test_units_for_a_queue_that_is_not_there(api: Api) -> None:
    path = f"/experiments/{(await api.experiment()).id}/units"
    body = NewUnits.model_validate({"units": [{"jobs": [new_job(queue="nightly")]}]})
    found = await api.refused("POST", path, 404, body)
    assert found.detail == "There is no queue 'nightly'."
    assert found.remedy == "Make it with: xmcloud queue create nightly"


@pytest.mark.parametrize(
    ("unit", "field"),
    [
        ({"jobs": []}, "body.units.0.jobs"),
        ({"jobs": [{"name": "a"}]}, "body.units.0.jobs.0.spec"),
        (
            {"jobs": [{"name": "a", "spec": {"executable": {"kind": "magic"}}}]},
            "body.units.0.jobs.0.spec.executable",
        ),
        (
            {"jobs": [{"name": "a", "spec": {"executable": {"kind": "command", "command": []}}}]},
            "body.units.0.jobs.0.spec.executable.command.command",
        ),
    ],
)
async def test_units_that_are_wrong(api: Api, unit: object, field: str) -> None:
    path = f"/experiments/{(await api.experiment()).id}/units"
    found = await api.refused("POST", path, 422, {"units": [unit]})
    assert found.field == field


async def test_units_of_no_experiment(api: Api) -> None:
    body = NewUnits.model_validate({"units": [{"jobs": [new_job()]}]})
    await api.refused("POST", f"/experiments/{'b' * 16}/units", 404, body)
    await api.refused("GET", f"/experiments/{'b' * 16}/jobs", 404)


async def test_a_clone_has_the_same_jobs_as_drafts(api: Api) -> None:
    experiment = await api.experiment("Rates")
    arguments = [{"name": "lr", "value": 0.1}, {"value": "verbose"}]
    await api.jobs(experiment, new_job("a", arguments=arguments), new_job("b", arguments=arguments))
    path, key = f"/experiments/{experiment.id}/clone", {"Idempotency-Key": "clone"}
    body = {"creator": "bob", "arguments": {"lr": 1}}
    clone = await api.post(Experiment, path, body, 201, headers=key)
    assert await api.post(Experiment, path, body, 201, headers=key) == clone
    assert (clone.title, clone.creator, clone.cloned_from, clone.units) == (
        "Rates", "bob", experiment.id, 2,
    )  # fmt: skip
    jobs = (await api.get(Jobs, f"/experiments/{clone.id}/jobs")).jobs
    assert [(job.name, job.state) for job in jobs] == [
        ("a", JobState.DRAFT),
        ("b", JobState.DRAFT),
    ]
    assert [argument.value for argument in jobs[0].spec.arguments] == [1, "verbose"]


async def test_a_clone_with_a_flag_that_no_job_has(api: Api) -> None:
    experiment = await api.experiment()
    await api.jobs(experiment, new_job(arguments=[{"name": "lr", "value": 1}]))
    body = {"arguments": {"layers": 3}}
    found = await api.refused("POST", f"/experiments/{experiment.id}/clone", 422, body)
    assert found.field == "arguments"
    assert found.remedy == "It must be a flag of the job (lr)."
    assert len((await api.get(Experiments, "/experiments")).experiments) == 1


async def test_actions_on_all_jobs_say_what_they_skipped(api: Api) -> None:
    experiment = await api.experiment()
    waiting, draft = await api.jobs(experiment, new_job("a"), new_job("b", None))
    path = f"/experiments/{experiment.id}"

    async def act(action: str) -> tuple[list[tuple[str, JobState]], list[str]]:
        acted = await api.post(Acted, f"{path}/{action}", {"by": "ada"})
        done = [(job.name, job.state) for job in acted.jobs]
        return done, [skipped.job_id for skipped in acted.skipped]

    assert await act("enqueue") == ([("b", JobState.QUEUED)], [waiting.id])
    both = {waiting.id: JobState.DRAFT, draft.id: JobState.DRAFT}
    assert await act("dequeue") == ([("a", JobState.DRAFT), ("b", JobState.DRAFT)], [])
    assert await act("dequeue") == ([], list(both))
    assert await act("stop") == ([("a", JobState.STOPPED), ("b", JobState.STOPPED)], [])
    assert await act("reset") == ([("a", JobState.DRAFT), ("b", JobState.DRAFT)], [])
    for action in ("enqueue", "dequeue", "stop", "reset"):
        await api.refused("POST", f"/experiments/{'c' * 16}/{action}", 404, {})


async def test_the_beginning_of_an_id_is_enough(api: Api) -> None:
    experiment = await api.experiment()
    await api.jobs(experiment, *(new_job(f"job {number}") for number in range(40)))
    jobs = (await api.get(Jobs, f"/experiments/{experiment.id}/jobs")).jobs
    assert (await api.get(ExperimentStatus, f"/experiments/{experiment.id[:1]}")) is not None
    wanted = jobs[0]
    assert await api.get(Job, f"/jobs/{wanted.id[:10]}") == wanted
    (letter, _), *_ = Counter(job.id[0] for job in jobs).most_common(1)
    found = await api.refused("GET", f"/jobs/{letter}", 409)
    assert found.type == "urn:xmcloud:problem:ambiguous-id"
    assert min(job.id for job in jobs if job.id[0] == letter) in found.detail
    assert found.remedy == "Give more characters."
    await api.refused("GET", "/jobs/0189", 404)


@pytest.mark.parametrize("id", ["A", "é", "a b", "..", "%2e", "%00", "__aaaaaaaaaaaa__", "🦊" * 16])
async def test_what_no_id_begins_with(api: Api, id: str) -> None:
    await api.refused("GET", f"/experiments/{id}", 404)
    await api.refused("GET", f"/jobs/{id}", 404)


async def test_an_id_that_is_too_long(api: Api) -> None:
    found = await api.refused("GET", f"/experiments/{'a' * 101}", 422)
    assert found.field == "path.id"
