"""Secrets: who may set and use them, what is told of them, and to whom."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.support.clock import ManualClock
from tests.support.platform import MemoryPlatform
from xmcloud.core.audit import Audit
from xmcloud.core.control.plane import Target
from xmcloud.core.identity import Project, Role
from xmcloud.core.member_protocol import TokenMade
from xmcloud.core.models import Experiment, Job
from xmcloud.core.protocol import Jobs, Pending
from xmcloud.core.secrets import ResolvedSecrets, SecretList, SecretStatus
from xmcloud.core.version import VERSION

pytestmark = pytest.mark.anyio

_VALUE = "hunter22-hunter22"
_SECRETS = "/projects/default/secrets"


@pytest.fixture
async def api(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Api]:
    clock, signals = ManualClock(), HeardSignals()
    plane = sqlite_plane(tmp_path, clock, signals)
    targets = {"cloud": Target(MemoryPlatform())}
    plane = replace(plane, targets=targets)
    async with opened_api(plane, clock, signals, tmp_path) as api:
        yield api


async def _set(
    api: Api, name: str = "wandb", value: str = _VALUE, project: str = "default"
) -> None:
    await api.call("PUT", f"/projects/{project}/secrets/{name}", {"value": value})


async def _as(api: Api, role: Role, project: str = "default") -> dict[str, dict[str, str]]:
    """Headers of somebody with that role."""
    body = {"name": role.value, "role": role.value}
    made = await api.post(TokenMade, f"/projects/{project}/tokens", body, 201)
    return {"headers": {"Authorization": f"Bearer {made.token}"}}


async def test_a_secret_is_listed_by_name_and_by_whom_and_no_answer_has_its_value(api: Api) -> None:
    answers = [
        await api.call("PUT", f"{_SECRETS}/wandb", {"value": _VALUE}),
        await api.call("PUT", f"{_SECRETS}/hf-token", {"value": _VALUE}),
        await api.call("GET", _SECRETS),
        await api.call("DELETE", f"{_SECRETS}/hf-token"),
        await api.call("GET", "/audit"),
    ]
    assert SecretList.model_validate_json(answers[2].content).secrets == [
        SecretStatus(project="default", name=name, set_by="owner", set_at=api.clock.now())
        for name in ("hf-token", "wandb")
    ]
    (left,) = (await api.get(SecretList, _SECRETS)).secrets
    assert left.name == "wandb"
    assert not any(_VALUE in answer.text for answer in answers)


async def test_setting_and_removing_stand_in_the_audit_log(api: Api) -> None:
    await _set(api)
    api.clock.advance(timedelta(seconds=1))
    await api.call("DELETE", f"{_SECRETS}/wandb")
    entries = (await api.get(Audit, "/audit", subject="secrets/default_wandb")).entries
    assert [(each.who, each.action, each.project) for each in entries] == [
        ("owner", "remove_secret", "default"),
        ("owner", "set_secret", "default"),
    ]


async def test_a_removed_secret_is_unknown_until_it_is_set_again(api: Api) -> None:
    await _set(api)
    await api.call("DELETE", f"{_SECRETS}/wandb")
    problem = await api.refused("DELETE", f"{_SECRETS}/wandb", 404)
    assert problem.detail == "Project default has no secret 'wandb'."
    await api.refused("PUT", "/projects/nowhere/secrets/wandb", 404, {"value": _VALUE})
    await _set(api)
    assert len((await api.get(SecretList, _SECRETS)).secrets) == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "fewer than 4 characters"),
        (" a \n", "fewer than 4 characters"),
        ("with\0nul", "NUL character"),
        ("x" * 65_537, "65,537 bytes"),
        (17, "valid string"),
    ],
)
async def test_what_cannot_be_a_secret_is_refused_without_being_repeated(
    api: Api, value: object, why: str
) -> None:
    answer = await api.call("PUT", f"{_SECRETS}/wandb", {"value": value}, 422)
    assert why in answer.text
    assert str(value) not in answer.json()["detail"]
    assert not (await api.get(SecretList, _SECRETS)).secrets


@pytest.mark.parametrize(
    ("role", "list_status", "set_status"),
    [
        (Role.VIEWER, 200, 403),
        (Role.MEMBER, 200, 403),
        (Role.OPERATOR, 200, 200),
        (Role.ADMIN, 200, 200),
    ],
)
async def test_members_use_secrets_and_operators_set_them(
    api: Api, role: Role, list_status: int, set_status: int
) -> None:
    await _set(api)
    who = await _as(api, role)
    await api.call("GET", _SECRETS, status=list_status, **who)
    await api.call("PUT", f"{_SECRETS}/wandb", {"value": _VALUE}, set_status, **who)
    await api.call("DELETE", f"{_SECRETS}/wandb", status=set_status, **who)
    await api.post(Project, "/projects", {"name": "other"}, 201)
    await api.call("GET", "/projects/other/secrets", status=403, **who)


async def test_a_job_that_names_an_unknown_secret_is_refused_with_its_batch(api: Api) -> None:
    await _set(api)
    experiment = await api.experiment()
    jobs = [new_job("a"), new_job("b", secrets={"KEY": "wandb", "TOKEN": "hf-token"})]
    body = {"units": [{"jobs": [job.model_dump(mode="json")]} for job in jobs]}
    path = f"/experiments/{experiment.id}/units"
    problem = await api.refused("POST", path, 404, body)
    assert problem.detail == "Project default has no secret 'hf-token'."
    assert problem.remedy == "Set it: xmcloud secret set hf-token"
    assert not (await api.get(Jobs, f"/experiments/{experiment.id}/jobs")).jobs
    await _set(api, "hf-token")
    made = (await api.post(Jobs, path, body, 201)).jobs
    assert made[1].spec.secrets == {"KEY": "wandb", "TOKEN": "hf-token"}


@pytest.mark.parametrize(
    "spec",
    [
        {"pool": "cloud"},
        {"pool": "local", "overflow": {"target": "cloud", "after_seconds": 60}},
        {"pool": "cloud", "platform": {"kind": "kubernetes"}},
    ],
)
async def test_a_job_that_a_target_may_run_has_no_secrets(api: Api, spec: dict[str, Any]) -> None:
    await _set(api)
    experiment = await api.experiment()
    image = {"kind": "image", "image": "an-image"}
    job = new_job("a", secrets={"KEY": "wandb"}, executable=image, **spec)
    body = {"units": [{"jobs": [job.model_dump(mode="json")]}]}
    problem = await api.refused("POST", f"/experiments/{experiment.id}/units", 422, body)
    assert "cloud may run: only workers are given secrets" in problem.remedy


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"environment": {"KEY": "x"}, "secrets": {"KEY": "wandb"}}, "both in environment"),
        ({"secrets": {"XMCLOUD_JOB_ID": "wandb"}}, "cannot be a secret"),
    ],
)
async def test_a_variable_has_one_value(api: Api, fields: dict[str, Any], why: str) -> None:
    experiment = await api.experiment()
    spec = {"executable": {"kind": "command", "command": ["true"]}, **fields}
    body = {"units": [{"jobs": [{"name": "a", "spec": spec}]}]}
    problem = await api.refused("POST", f"/experiments/{experiment.id}/units", 422, body)
    assert why in problem.detail


async def test_a_draft_may_be_given_secrets_that_are_there(api: Api) -> None:
    await _set(api)
    job = await api.job(queue=None)
    spec = job.spec.model_dump(mode="json")
    await api.refused("PATCH", f"/jobs/{job.id}", 404, {"spec": {**spec, "secrets": {"K": "no"}}})
    edited = {"spec": {**spec, "secrets": {"K": "wandb"}}}
    answer = await api.call("PATCH", f"/jobs/{job.id}", edited)
    assert Job.model_validate_json(answer.content).spec.secrets == {"K": "wandb"}


async def test_a_copy_names_the_same_secrets_of_its_own_project(api: Api) -> None:
    await _set(api)
    job = await api.job(secrets={"KEY": "wandb"})
    path = f"/jobs/{job.id}/clone"
    copy = await api.post(Experiment, path, {"creator": "ada"}, 201)
    (copied,) = (await api.get(Jobs, f"/experiments/{copy.id}/jobs")).jobs
    assert copied.spec.secrets == {"KEY": "wandb"}
    await api.post(Project, "/projects", {"name": "vision"}, 201)
    elsewhere = {"creator": "ada", "project": "vision"}
    problem = await api.refused("POST", path, 404, elsewhere)
    assert problem.remedy == "Set it: xmcloud secret set wandb --project vision"
    await _set(api, project="vision")
    await api.post(Experiment, path, elsewhere, 201)


async def test_the_worker_that_holds_an_attempt_is_told_and_it_is_noted(api: Api) -> None:
    await _set(api)
    job = await api.job(secrets={"KEY": "wandb", "ALSO": "wandb"})
    session, other = await api.session(), await api.session("bee")
    (mine,) = await api.claimed(session)
    path, ref = f"/sessions/{session.id}/secrets", {"job_id": job.id, "fence": mine.fence}
    found = await api.post(ResolvedSecrets, path, ref)
    assert found.values == {"KEY": _VALUE, "ALSO": _VALUE}
    (entry,) = (await api.get(Audit, "/audit", subject=f"jobs/{job.id}")).entries[:1]
    assert (entry.who, entry.action, entry.project) == ("owner", "resolve_secrets", "default")
    assert entry.changes[0].after == {"secrets": {"KEY": "wandb", "ALSO": "wandb"}}
    assert _VALUE not in entry.model_dump_json()
    await api.refused("POST", path, 409, {**ref, "fence": mine.fence + 1})
    await api.refused("POST", f"/sessions/{other.id}/secrets", 409, ref)
    await api.call("DELETE", f"{_SECRETS}/wandb")
    problem = await api.refused("POST", path, 404, ref)
    assert problem.type.endswith(":secret-missing")
    api.clock.advance(timedelta(hours=1))
    assert (await api.refused("POST", path, 409, ref)).type.endswith(":lease-lost")


async def test_people_are_told_no_values_whatever_they_may(api: Api) -> None:
    await _set(api)
    job = await api.job(secrets={"KEY": "wandb"})
    session = await api.session()
    (mine,) = await api.claimed(session)
    path, ref = f"/sessions/{session.id}/secrets", {"job_id": job.id, "fence": mine.fence}
    for role, status in [(Role.VIEWER, 403), (Role.MEMBER, 403)]:
        await api.call("POST", path, ref, status, **await _as(api, role))
    for role in (Role.OPERATOR, Role.ADMIN, Role.WORKER):
        who = await _as(api, role, "*")
        await api.call("POST", path, ref, 404, **who)  # the session is somebody else's
    schema = json.dumps(api.app.openapi()["paths"]["/v1/sessions/{id}/secrets"])
    assert "ResolvedSecrets" in schema


async def test_a_control_plane_without_secrets_says_so(api: Api) -> None:
    api.app.state.plane = replace(api.plane, secrets=None)
    problem = await api.refused("PUT", f"{_SECRETS}/wandb", 409, {"value": _VALUE})
    assert problem.detail == "This control plane keeps no secrets."


async def test_a_job_without_secrets_is_stored_as_before(api: Api) -> None:
    job = await api.job()
    assert "secrets" not in job.model_dump_json()


async def test_a_worker_that_would_start_a_job_without_them_does_not_get_it(api: Api) -> None:
    await _set(api)
    old, new = await api.session("old", version="0.1.0"), await api.session("new", version="0.2.0")
    (job,) = await api.jobs(await api.experiment(), new_job(secrets={"KEY": "wandb"}))
    assert await api.claimed(old) == []
    claim = {"slots": 1, "queues": ("default",), "only": job.id}
    await api.refused("POST", f"/sessions/{old.id}/sync", 422, {"claim": claim})
    assert [taken.id for taken in await api.claimed(new)] == [job.id]


async def test_why_such_a_job_waits(api: Api) -> None:
    await _set(api)
    await api.session("old", version="0.1.0")
    (job,) = await api.jobs(await api.experiment(), new_job(secrets={"KEY": "wandb"}))
    (cause,) = (await api.get(Pending, f"/jobs/{job.id}/pending")).causes
    assert (
        cause.message == "it has secrets, and the workers of any pool are too old to be told them"
    )
    assert cause.remedy == f"Update them: pip install xmcloud=={VERSION}"
