"""Every operation of the API against every role: who may, and who is refused."""

import hashlib
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.functions.api import Api, finished, new_job
from tests.functions.test_openapi import operations
from xmcloud.core.control import members
from xmcloud.core.control.experiments import add_units, create_experiment
from xmcloud.core.control.sessions import open_session
from xmcloud.core.control.sync import sync
from xmcloud.core.documents import EXPERIMENTS, JOBS
from xmcloud.core.identity import EVERYWHERE, Principal, Role
from xmcloud.core.member_protocol import NewToken
from xmcloud.core.models import Experiment, Job, JobState
from xmcloud.core.protocol import NewExperiment, NewUnit, NewUnits
from xmcloud.core.worker_protocol import Claim, OpenSession, Sync

pytestmark = pytest.mark.anyio

PROJECT, OTHER = "vision", "speech"

CALLERS: dict[str, dict[str, Role]] = {
    "nobody": {},
    "stranger": {OTHER: Role.ADMIN},
    "viewer": {PROJECT: Role.VIEWER},
    "member": {PROJECT: Role.MEMBER},
    "creator": {PROJECT: Role.MEMBER},
    "operator": {PROJECT: Role.OPERATOR},
    "admin": {PROJECT: Role.ADMIN},
    "viewer*": {EVERYWHERE: Role.VIEWER},
    "member*": {EVERYWHERE: Role.MEMBER},
    "operator*": {EVERYWHERE: Role.OPERATOR},
    "admin*": {EVERYWHERE: Role.ADMIN},
    "worker": {EVERYWHERE: Role.WORKER},
}
"""Who asks, of what is in PROJECT and was made by `creator`."""

ALL = frozenset(CALLERS)
ADMIN_ALL = frozenset({"admin*"})
ADMIN = ADMIN_ALL | {"admin"}
OPERATE_ALL = ADMIN_ALL | {"operator*"}
OPERATE = OPERATE_ALL | ADMIN | {"operator"}
CHANGE = OPERATE | {"creator"}
WRITE = CHANGE | {"member", "member*"}
READ = WRITE | {"viewer", "viewer*"}
READ_ALL = frozenset({"viewer*", "member*", "operator*", "admin*"})
WRITE_ANYWHERE = WRITE | {"stranger"}
READ_ANYWHERE = READ | {"stranger"}
WORK = OPERATE_ALL | {"worker"}

TABLE: dict[str, frozenset[str]] = {
    "GET /v1/experiments": READ_ALL,
    "POST /v1/experiments": WRITE,
    "GET /v1/experiments/{id}": READ,
    "PATCH /v1/experiments/{id}": CHANGE,
    "POST /v1/experiments/{id}/units": CHANGE,
    "GET /v1/experiments/{id}/jobs": READ,
    "GET /v1/experiments/{id}/pending": READ,
    "GET /v1/experiments/{id}/changes": READ,
    "POST /v1/experiments/{id}/clone": WRITE,
    "POST /v1/experiments/{id}/stop": CHANGE,
    "POST /v1/experiments/{id}/reset": CHANGE,
    "POST /v1/experiments/{id}/enqueue": CHANGE,
    "POST /v1/experiments/{id}/dequeue": CHANGE,
    "GET /v1/jobs/{id}": READ,
    "GET /v1/jobs/{id}/pending": READ,
    "PATCH /v1/jobs/{id}": CHANGE,
    "POST /v1/jobs/{id}/stop": CHANGE,
    "POST /v1/jobs/{id}/reset": CHANGE,
    "POST /v1/jobs/{id}/enqueue": CHANGE,
    "POST /v1/jobs/{id}/dequeue": CHANGE,
    "POST /v1/jobs/{id}/move": OPERATE,
    "POST /v1/jobs/{id}/clone": WRITE,
    "GET /v1/jobs/{id}/statistics": READ,
    "GET /v1/jobs/{id}/log": READ,
    "GET /v1/queues": READ_ANYWHERE,
    "POST /v1/queues": OPERATE_ALL,
    "GET /v1/queues/{name}": READ_ANYWHERE,
    "GET /v1/queues/{name}/jobs": READ_ANYWHERE,
    "POST /v1/queues/{name}/pause": OPERATE_ALL,
    "POST /v1/queues/{name}/resume": OPERATE_ALL,
    "GET /v1/workers": READ_ANYWHERE | WORK,
    "GET /v1/workers/{name}": READ_ANYWHERE,
    "POST /v1/workers/{name}/drain": OPERATE_ALL,
    "POST /v1/workers/{name}/resume": OPERATE_ALL,
    "POST /v1/workers/{name}/stop": OPERATE_ALL,
    "POST /v1/workers/{name}/sessions": WORK,
    "POST /v1/sessions/{id}/sync": WORK,
    "POST /v1/sessions/{id}/close": WORK,
    "POST /v1/messages/pull": WORK,
    "POST /v1/messages/settle": WORK,
    "PUT /v1/blobs/{digest}": WRITE_ANYWHERE | WORK,
    "HEAD /v1/blobs/{digest}": READ_ANYWHERE | WORK,
    "GET /v1/blobs/{digest}": READ_ANYWHERE | WORK,
    "PUT /v1/blobs/{digest}/parts/{part}": WRITE_ANYWHERE | WORK,
    "GET /v1/blobs/{digest}/parts": WRITE_ANYWHERE | WORK,
    "POST /v1/blobs/{digest}/complete": WRITE_ANYWHERE | WORK,
    "POST /v1/builds": WRITE_ANYWHERE,
    "GET /v1/builds": READ_ANYWHERE,
    "GET /v1/builds/{id}": READ_ANYWHERE,
    "POST /v1/builds/{id}/stop": OPERATE_ALL,
    "GET /v1/targets": READ_ANYWHERE,
    "GET /v1/me": ALL,
    "GET /v1/projects": ALL,
    "POST /v1/projects": ADMIN_ALL,
    "PATCH /v1/projects/{project}": ADMIN_ALL,
    "GET /v1/projects/{project}/members": READ,
    "PUT /v1/projects/{project}/members/{name}": ADMIN,
    "DELETE /v1/projects/{project}/members/{name}": ADMIN,
    "GET /v1/projects/{project}/tokens": ADMIN,
    "POST /v1/projects/{project}/tokens": ADMIN,
    "POST /v1/tokens/{id}/revoke": ADMIN,
    "GET /v1/audit": ADMIN_ALL,
    "GET /v1/metrics": READ_ANYWHERE,
    "GET /v1/schema": READ_ANYWHERE,
    "GET /v1/export": ADMIN_ALL,
    "GET /v1/export/documents": ADMIN_ALL,
    "GET /v1/export/blobs": ADMIN_ALL,
    "GET /v1/export/blob": ADMIN_ALL,
    "POST /v1/imports/{digest}": ADMIN_ALL,
    "POST /v1/imports/{digest}/documents": ADMIN_ALL,
    "PUT /v1/imports/{digest}/blob": ADMIN_ALL,
    "POST /v1/imports/{digest}/finish": ADMIN_ALL,
    "PUT /v1/projects/{project}/secrets/{name}": OPERATE,
    "GET /v1/projects/{project}/secrets": READ,
    "DELETE /v1/projects/{project}/secrets/{name}": OPERATE,
    "POST /v1/sessions/{id}/secrets": WORK,
    "GET /v1/projects/{project}/usage": READ,
}
"""Who may. The rest is told 403, or 404 of what it may not even see."""

OPEN = {"GET /v1/health", "GET /v1/ready", "POST /v1/attempts/{job}/{fence}/reports"}
"""Without a bearer token of a person or a worker; attempts have tokens of their own."""

HIDDEN = frozenset({"nobody", "stranger", "worker"})
"""Who does not see PROJECT at all: its experiments and jobs are not there for them."""


class Names:
    """Knows each caller by the token that is his name."""

    async def authenticate(self, plane: object, token: str) -> Principal | None:
        return Principal(token, CALLERS[token]) if token in CALLERS else None


@dataclass
class World:
    """What the operations are about."""

    api: Api
    experiment: str
    job: str
    token: str

    async def ask(self, caller: str, method: str, path: str, body: Any) -> int:
        headers = {"Authorization": f"Bearer {caller}"}
        if isinstance(body, dict):
            response = await self.api.http.request(method, path, headers=headers, json=body)
        else:
            response = await self.api.http.request(method, path, headers=headers, content=body)
        return response.status_code

    def path(self, operation: str) -> str:
        path = operation
        id = {"experiments": self.experiment, "jobs": self.job, "tokens": self.token}
        values = {
            "{id}": id.get(path.split("/")[2], "a" * 16),
            "{project}": PROJECT,
            "{name}": "default" if "/queues" in path else "ant",
            "{digest}": hashlib.sha256(b"").hexdigest(),
            "{part}": hashlib.sha256(b"").hexdigest(),
        }
        for variable, value in values.items():
            path = path.replace(variable, value)
        return path


@pytest.fixture
async def world(api: Api) -> World:
    api.app.state.authenticators = [Names()]
    plane = api.plane.of(Principal("creator", CALLERS["creator"]))
    for project in (PROJECT, OTHER):
        await members.create_project(api.plane, project)
    new = NewExperiment(title="digits", project=PROJECT, creator="creator")
    experiment = await create_experiment(plane, new, "key")
    units = NewUnits(units=(NewUnit(jobs=(new_job(queue=None),)),))
    (job,) = await add_units(plane, experiment.id, units, "units")
    made = await members.create_token(plane, PROJECT, NewToken(name="ci", role=Role.VIEWER))
    return World(api, experiment.id, job.id, made.about.id)


def bodies(document: dict[str, Any]) -> dict[str, Any]:
    """An example for each operation that takes one; bytes for those that take bytes."""
    found: dict[str, Any] = {}
    for operation in operations(document):
        content = operation.described.get("requestBody", {"content": {}})["content"]
        examples = content.get("application/json", {}).get("examples", {})
        example = next(iter(examples.values()))["value"] if examples else b""
        found[operation.name] = deepcopy(example)  # of the one document of all tests
    found["POST /v1/experiments"]["project"] = PROJECT
    found["POST /v1/messages/pull"]["wait_seconds"] = 0
    return found


async def test_the_table(world: World) -> None:
    found = bodies(world.api.app.openapi())
    assert set(found) == set(TABLE) | OPEN
    wrong = []
    for name, may in TABLE.items():
        method, operation = name.split()
        for caller in CALLERS:
            status = await world.ask(caller, method, world.path(operation), found[name])
            hides = operation.split("/")[2] in ("experiments", "jobs") and "{id}" in operation
            refused = 404 if hides and caller in HIDDEN else 403
            if caller not in may and status != refused:
                wrong.append(f"{caller} is not refused with {refused} but told {status}: {name}")
            if caller in may and status in (401, 403):
                wrong.append(f"{caller} is refused with {status}: {name}")
    assert wrong == []


async def test_what_is_allowed_of_a_project_is_found(world: World) -> None:
    """So that a 404 in the table cannot hide a refusal."""
    for path in (f"/v1/experiments/{world.experiment}", f"/v1/jobs/{world.job}"):
        for caller in READ:
            assert await world.ask(caller, "GET", path, b"") == 200


@pytest.mark.parametrize("kind", ["experiments", "jobs"])
async def test_a_beginning_of_an_id_does_not_tell_what_is_hidden(world: World, kind: str) -> None:
    id = world.experiment if kind == "experiments" else world.job
    assert await world.ask("viewer", "GET", f"/v1/{kind}/{id[:6]}", b"") == 200
    assert await world.ask("stranger", "GET", f"/v1/{kind}/{id[:6]}", b"") == 404


async def test_experiments_are_listed_by_project(world: World) -> None:
    listed = f"/v1/experiments?project={PROJECT}"
    for caller in CALLERS:
        assert await world.ask(caller, "GET", listed, b"") == (200 if caller in READ else 403)


async def test_whose_experiment_it_is_is_not_for_the_client_to_say(world: World) -> None:
    body = {"title": "mine", "project": PROJECT, "creator": "somebody else"}
    headers = {"Authorization": "Bearer member"}
    response = await world.api.http.post("/v1/experiments", json=body, headers=headers)
    made = Experiment.model_validate_json(response.content)
    assert made.creator == "member"
    stop = await world.api.http.post(
        f"/v1/jobs/{world.job}/stop",
        json={"by": "somebody else"},
        headers={"Authorization": "Bearer creator"},
    )
    stopped = Job.model_validate_json(stop.content)
    assert stopped.state is JobState.STOPPED
    assert "creator" in stopped.reason.message
    assert "somebody else" not in stopped.reason.message


async def test_the_same_key_of_somebody_else_is_another_experiment(world: World) -> None:
    body = {"title": "t", "project": PROJECT}
    made = []
    for caller in ("member", "creator", "member"):
        headers = {"Authorization": f"Bearer {caller}", "Idempotency-Key": "same"}
        response = await world.api.http.post("/v1/experiments", json=body, headers=headers)
        made.append(Experiment.model_validate_json(response.content).id)
    assert made[0] == made[2] != made[1]


async def test_a_copy_is_made_where_one_may_write(world: World) -> None:
    path = f"/v1/experiments/{world.experiment}/clone"
    assert await world.ask("member", "POST", path, {"project": OTHER}) == 403
    await members.set_role(world.api.plane, OTHER, "member", Role.MEMBER)
    assert await world.ask("viewer*", "POST", path, {}) == 403


async def test_queues_and_workers_show_no_jobs_of_hidden_projects(world: World) -> None:
    assert await world.ask("creator", "POST", f"/v1/jobs/{world.job}/enqueue", {}) == 200
    seen = {}
    for caller in ("viewer", "stranger"):
        headers = {"Authorization": f"Bearer {caller}"}
        response = await world.api.http.get("/v1/queues/default/jobs", headers=headers)
        seen[caller] = [job["id"] for job in response.json()["jobs"]]
    assert seen == {"viewer": [world.job], "stranger": []}


async def test_a_worker_touches_only_what_its_session_holds(world: World) -> None:
    """Neither by another's session, nor by its own for a job that another one holds."""
    plane = world.api.plane
    request = OpenSession(queues=("default",))
    ant = plane.of(Principal("ant", CALLERS["worker"]))
    held = (await open_session(ant, "ant", request)).session
    for path in (f"/v1/sessions/{held.id}/sync", f"/v1/sessions/{held.id}/close"):
        assert await world.ask("worker", "POST", path, {}) == 404
    assert await world.ask("creator", "POST", f"/v1/jobs/{world.job}/enqueue", {}) == 200
    claim = Claim(slots=1, queues=("default",))
    (job,) = (await sync(ant, held.id, Sync(claim=claim))).jobs
    bee = plane.of(Principal("worker", CALLERS["worker"]))
    own = (await open_session(bee, "bee", request)).session
    answer = await world.api.http.post(
        f"/v1/sessions/{own.id}/sync",
        json={"reports": [finished(job)]},
        headers={"Authorization": "Bearer worker"},
    )
    assert answer.json()["results"][0]["problem"]["status"] == 409
    assert (await JOBS.get(plane.store, job.id)).item.state is JobState.STARTING


@pytest.mark.parametrize("caller", ["worker", "operator*"])
async def test_what_people_did_not_queue_is_started_by_who_may_queue_it(
    world: World, caller: str
) -> None:
    plane = world.api.plane.of(Principal(caller, CALLERS[caller]))
    session = (await open_session(plane, "ant", OpenSession(queues=("default",)))).session
    claim = {"claim": {"slots": 1, "queues": ["default"], "only": world.job}}
    path = f"/v1/sessions/{session.id}/sync"
    assert await world.ask(caller, "POST", path, claim) == (403 if caller == "worker" else 200)
    state = (await JOBS.get(plane.store, world.job)).item.state
    assert state is (JobState.DRAFT if caller == "worker" else JobState.STARTING)


class TestTokens:
    """Tokens of machines."""

    async def made(self, api: Api, project: str, **new: Any) -> tuple[str, str]:
        body = {"name": "ci", "role": "viewer", **new}
        response = await api.http.post(f"/v1/projects/{project}/tokens", json=body)
        assert response.status_code == 201, response.text
        return response.json()["token"], response.json()["about"]["id"]

    async def status(self, api: Api, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return (await api.http.get("/v1/me", headers=headers)).status_code

    async def test_it_opens_what_its_role_opens_until_it_expires(self, api: Api) -> None:
        token, _ = await self.made(api, "default", days=1)
        headers = {"Authorization": f"Bearer {token}"}
        me = (await api.http.get("/v1/me", headers=headers)).json()
        assert me == {"name": "token:ci", "roles": {"default": "viewer"}}
        api.clock.advance(timedelta(days=1) - timedelta(microseconds=1))
        assert await self.status(api, token) == 200
        api.clock.advance(timedelta(microseconds=1))
        assert await self.status(api, token) == 401

    async def test_it_opens_nothing_once_it_is_revoked(self, api: Api) -> None:
        token, id = await self.made(api, "*", role="worker")
        assert await self.status(api, token) == 200
        await api.http.post(f"/v1/tokens/{id}/revoke")
        assert await self.status(api, token) == 401
        listed = (await api.http.get("/v1/projects/*/tokens")).json()["tokens"]
        assert [each["revoked_at"] is None for each in listed] == [False]

    async def test_its_secret_is_kept_nowhere(self, api: Api) -> None:
        token, id = await self.made(api, "default")
        secret = token.rpartition(f"{id}_")[2]
        (found,) = await api.plane.store.get("tokens", [id])
        assert found is not None
        assert secret not in str(found.data)
        listed = await api.http.get("/v1/projects/default/tokens")
        audit = await api.http.get("/v1/audit")
        digest = hashlib.sha256(secret.encode()).hexdigest()
        assert digest in str(found.data)
        for told in (listed.text, audit.text):
            assert id in told
            assert secret not in told
            assert digest not in told

    async def test_another_secret_of_a_known_id_opens_nothing(self, api: Api) -> None:
        token, _ = await self.made(api, "default")
        forged = token[:-1] + ("A" if token[-1] != "A" else "B")
        assert await self.status(api, forged) == 401

    async def test_a_worker_of_one_project_is_refused(self, api: Api) -> None:
        body = {"name": "ci", "role": "worker"}
        found = await api.refused("POST", "/projects/default/tokens", 422, json=body)
        assert found.field == "project"


async def test_the_owner_says_who_he_is(api: Api) -> None:
    response = await api.http.post("/v1/experiments", json={"title": "t", "creator": "ada"})
    made = Experiment.model_validate_json(response.content)
    assert made.creator == "ada"
    assert (await EXPERIMENTS.get(api.plane.store, made.id)).item.project == "default"


async def test_a_project_that_is_not_there(api: Api) -> None:
    body = {"title": "t", "project": "nowhere"}
    found = await api.refused("POST", "/experiments", 404, json=body)
    assert found.remedy == "Make it: xmcloud project create nowhere"
