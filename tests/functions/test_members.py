"""Projects, members and their roles."""

from typing import Any

import pytest

from tests.functions.api import Api
from xmcloud.core.control import members
from xmcloud.core.identity import Permission, Role

pytestmark = pytest.mark.anyio

ADA = "ada@example.com"


async def set_role(api: Api, project: str, name: str, role: str) -> dict[str, Any]:
    answer = await api.http.put(f"/v1/projects/{project}/members/{name}", json={"role": role})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def made(api: Api, *names: str) -> None:
    for name in names:
        answer = await api.http.post("/v1/projects", json={"name": name})
        assert answer.status_code == 201, answer.text


async def test_the_default_project_is_always_there(api: Api) -> None:
    await made(api, "vision")
    listed = (await api.http.get("/v1/projects")).json()["projects"]
    assert [each["name"] for each in listed] == ["default", "vision"]


@pytest.mark.parametrize("name", ["vision", "default"])
async def test_a_name_is_taken_once(api: Api, name: str) -> None:
    await made(api, "vision")
    await api.refused("POST", "/projects", 409, {"name": name})


async def test_roles_by_project(api: Api) -> None:
    await made(api, "vision", "speech")
    await set_role(api, "vision", ADA, "member")
    await set_role(api, "speech", ADA, "viewer")
    found = await set_role(api, "vision", "Ada@Example.com", "operator")
    assert found == {"name": ADA, "roles": {"speech": "viewer", "vision": "operator"}}
    await api.http.delete(f"/v1/projects/speech/members/{ADA}")
    listed = (await api.http.get("/v1/projects/vision/members")).json()["members"]
    assert listed == [{"name": ADA, "roles": {"vision": "operator"}}]
    assert (await api.http.get("/v1/projects/speech/members")).json()["members"] == []


async def test_who_is_something_everywhere_is_so_in_each_project(api: Api) -> None:
    await made(api, "vision")
    await set_role(api, "*", ADA, "viewer")
    principal = await members.member_principal(api.plane, ADA)
    assert principal.may(Permission.READ, "vision")
    assert not principal.may(Permission.WRITE, "vision")
    listed = (await api.http.get("/v1/projects/vision/members")).json()["members"]
    assert [each["name"] for each in listed] == [ADA]


async def test_of_two_roles_given_at_once_both_are_there(recorded_api: Api) -> None:
    api = recorded_api
    await made(api, "vision", "speech")
    await set_role(api, "*", ADA, "viewer")
    store = api.plane.store
    store._recording.once(  # type: ignore[attr-defined]
        "store.commit", lambda: set_role(api, "speech", ADA, "member")
    )
    found = await set_role(api, "vision", ADA, "operator")
    assert found["roles"] == {"*": "viewer", "speech": "member", "vision": "operator"}


async def test_a_worker_is_one_everywhere(api: Api) -> None:
    found = await api.refused("PUT", f"/projects/default/members/{ADA}", 422, {"role": "worker"})
    assert found.field == "project"
    await set_role(api, "*", "ant@p.iam.gserviceaccount.com", "worker")


async def test_a_role_in_a_project_that_is_not_there(api: Api) -> None:
    await api.refused("PUT", f"/projects/nowhere/members/{ADA}", 404, {"role": "viewer"})


@pytest.mark.parametrize("name", ["a%2Fb@example.com", "%20", "-x@example.com", "a b"])
async def test_a_name_that_is_no_address(api: Api, name: str) -> None:
    answer = await api.http.put(f"/v1/projects/default/members/{name}", json={"role": "viewer"})
    assert answer.status_code in (404, 422)


async def test_quotas_are_set_by_who_answers_for_them(api: Api) -> None:
    await made(api, "vision")
    quota = {"person_quota": {"queued": 10}}
    edited = (await api.http.patch("/v1/projects/vision", json=quota)).json()
    assert edited["person_quota"]["queued"] == 10
    assert edited["quota"] == {"running": None, "queued": None, "gpu_hours": None}
    edited = (await api.http.patch("/v1/projects/default", json={"quota": {"running": 3}})).json()
    assert edited["quota"]["running"] == 3
    found = await members.load_project(api.plane, "default")
    assert (found.quota.running, found.person_quota.queued) == (3, None)


async def test_an_admin_of_the_control_plane_needs_no_entry(api: Api) -> None:
    principal = await members.member_principal(api.plane, ADA, {ADA})
    assert principal.roles == {"*": Role.ADMIN}
