"""Who may reach the API, and whom it believes."""

import re

from tests.infra.conftest import ADMIN, ROBOT, Applied
from tests.infra.rights import held
from tests.infra.test_functions import by_entry_point, service
from xmcloud.functions.wiring import _listed

REACHES = ("function xmcloud-api", "roles/run.invoker")


def test_the_api_believes_google_for_each_of_its_addresses(applied: Applied) -> None:
    environment = service(by_entry_point(applied)["api"])["environment_variables"]
    assert environment["XMCLOUD_IDENTITY"] == "google"
    audiences = _listed(environment["XMCLOUD_AUDIENCE"])
    assert {applied.outputs["api_url"], applied.outputs["audience"]} < audiences
    assert "https://europe-west4-my-project.cloudfunctions.net/xmcloud-api" in audiences
    assert all(re.fullmatch(r"https://[^/]+(/xmcloud-api)?", each) for each in audiences)
    assert _listed(environment["XMCLOUD_ADMINS"]) == {ADMIN, ROBOT}


OWN = ("xmcloud-worker", "xmcloud-vertex")


def test_admins_those_who_are_named_and_xmclouds_own_accounts_reach_the_api(
    applied: Applied,
) -> None:
    reaching = {who for who, rights in held(applied).items() if REACHES in rights}
    assert reaching == {ADMIN, ROBOT, "allUsers", "group:team@example.com", *OWN}
    members = {
        grant.values["member"]
        for grant in applied.all("google_cloud_run_v2_service_iam_member")
        if grant.values["name"] == "xmcloud-api"
    }
    assert {f"user:{ADMIN}", f"serviceAccount:{ROBOT}"} < members


def test_nobody_else_does_unless_asked_for(least: str) -> None:
    members = re.findall(r'member += "((?:user|group|all)[^"]*)"', least)
    assert members == [f"user:{ADMIN}"]


def test_nobody_but_the_functions_reads_the_signing_secret(applied: Applied) -> None:
    reads = ("secret xmcloud-token", "roles/secretmanager.secretAccessor")
    readers = {who for who, rights in held(applied).items() if reads in rights}
    functions = {each.values["name"] for each in applied.all("google_cloudfunctions2_function")}
    assert readers == functions


def test_the_rights_to_secrets_of_jobs_do_not_reach_the_signing_secret(applied: Applied) -> None:
    (grant,) = [
        each.values
        for each in applied.all("google_project_iam_member")
        if "secrets" in each.values["role"]
    ]
    (condition,) = grant["condition"]
    (prefix,) = re.findall(r'startsWith\("(.*)"\)', condition["expression"])
    token = applied.one("google_secret_manager_secret").values["secret_id"]
    project = prefix.partition("/secrets/")[0]
    assert not f"{project}/secrets/{token}".startswith(prefix)
