"""The functions against the code: entry points, triggers, environment, limits."""

import ast
import base64
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cloudevents.http import from_http

import xmcloud.functions.wiring
from tests.infra.conftest import ROOT, Applied, Resource
from xmcloud.functions.http.common import MAX_WAIT_SECONDS

FUNCTION = "google_cloudfunctions2_function"
PUSHED = {"dispatch", "build_event", "platform_event"}
LEFT_OUT = {
    "FIRESTORE_EMULATOR_HOST": "an emulator",
    "PUBSUB_EMULATOR_HOST": "an emulator",
    "STORAGE_EMULATOR_HOST": "an emulator",
    "XMCLOUD_BUILD_ENDPOINT": "a stand-in",
    "XMCLOUD_GOOGLE_CERTS": "a stand-in",
    "XMCLOUD_KUBECONFIG": "a file of the machine that `xmcloud up` runs on",
    "XMCLOUD_KUBERNETES_CONTEXT": "of that file",
    "XMCLOUD_KUBERNETES_LIMIT": "functions are in no cluster, and reach none without that file",
    "XMCLOUD_KUBERNETES_NAMESPACE": "functions are in no cluster, and reach none without that file",
    "XMCLOUD_SECRETS_ENDPOINT": "a stand-in",
    "XMCLOUD_VERTEX_ENDPOINT": "a stand-in",
}
"""What the control plane reads and a deployment does not set, and why."""


def by_entry_point(applied: Applied) -> dict[str, Resource]:
    functions = applied.all(FUNCTION)
    found = {each.values["build_config"][0]["entry_point"]: each for each in functions}
    assert len(found) == len(functions)
    return found


def service(function: Resource) -> dict[str, Any]:
    (config,) = function.values["service_config"]
    found: dict[str, Any] = config
    return found


def test_every_entry_point_is_a_function_and_no_other(applied: Applied) -> None:
    main = ast.parse((ROOT / "functions" / "main.py").read_text("utf-8"))
    exported = next(
        ast.literal_eval(node.value) for node in main.body if isinstance(node, ast.Assign)
    )
    assert set(by_entry_point(applied)) == set(exported)


def test_every_variable_that_the_code_reads_is_set_or_left_out_for_a_reason(
    applied: Applied,
) -> None:
    # Read by functions-framework, and by the exporter of traces.
    set_by_us = {"FUNCTION_USE_ASGI", "OTEL_EXPORTER_OTLP_ENDPOINT"}
    read = variables_read()
    assert LEFT_OUT.keys() <= read
    for function in applied.all(FUNCTION):
        environment = service(function)["environment_variables"]
        assert set(environment) == (read - LEFT_OUT.keys()) | set_by_us


def variables_read() -> set[str]:
    """By the wiring, and by the adapters for Google Cloud."""
    wiring = Path(str(xmcloud.functions.wiring.__file__))
    texts = [wiring.read_text("utf-8")]
    adapters = ROOT / "functions" / "xmcloud" / "adapters" / "gcp"
    texts += [path.read_text("utf-8") for path in adapters.glob("*.py")]
    read = (r'environ\.get\(\s*"(\w+)"', r'(?:_required|_seconds|_count)\("(\w+)"')
    return {name for text in texts for pattern in read for name in re.findall(pattern, text)}


def test_the_environment_makes_a_service_of_this_project(applied: Applied) -> None:
    environment = service(by_entry_point(applied)["api"])["environment_variables"]
    assert environment["XMCLOUD_PROFILE"] == "gcp"
    assert environment["XMCLOUD_BUCKET"] == "my-project-xmcloud"
    assert environment["XMCLOUD_VERTEX_LOCATIONS"] == "europe-west4,us-central1"
    assert environment["XMCLOUD_PUBLIC_URL"] == applied.outputs["api_url"]
    assert environment["XMCLOUD_REGISTRY"] == applied.outputs["registry"]


def test_the_token_is_mounted_where_the_code_looks(applied: Applied) -> None:
    secret = applied.one("google_secret_manager_secret").values["secret_id"]
    version = applied.one("google_secret_manager_secret_version").values["version"]
    for function in applied.all(FUNCTION):
        config = service(function)
        (volume,) = config["secret_volumes"]
        assert volume["mount_path"] == config["environment_variables"]["XMCLOUD_HOME"]
        assert volume["versions"] == [{"path": "token", "version": version}]
        assert volume["secret"] == secret


def test_messages_are_pushed_to_the_functions_that_take_them(applied: Applied) -> None:
    """As CloudEvents, which is what functions-framework takes, in a name that may call them."""
    pushes = [s for s in applied.all("google_pubsub_subscription") if s.values["push_config"]]
    called = set()
    for push in pushes:
        (config,) = push.values["push_config"]
        url = urlsplit(config["push_endpoint"])
        mode = parse_qs(url.query)["__GCP_CloudEventsMode"]
        topic = push.values["topic"].removeprefix("projects/my-project/topics/")
        assert mode == [f"CUSTOM_PUBSUB_projects/my-project/topics/{topic}"]
        target = url.path or url.netloc
        function = next(f for f in applied.all(FUNCTION) if service(f)["uri"] == target)
        assert config["oidc_token"][0]["audience"] == target
        assert may_call(applied, function, config["oidc_token"][0]["service_account_email"])
        assert push.values["ack_deadline_seconds"] >= service(function)["timeout_seconds"]
        called.add(function.values["build_config"][0]["entry_point"])
    assert called == PUSHED


def may_call(applied: Applied, function: Resource, email: str) -> bool:
    grants = applied.all("google_cloud_run_v2_service_iam_member")
    account = next(a for a in applied.all("google_service_account") if a.values["email"] == email)
    return any(
        grant.values["name"] == function.values["name"]
        and grant.values["role"] == "roles/run.invoker"
        and grant.values["member"] in (account.values["member"], f"serviceAccount:{email}")
        for grant in grants
    )


def test_the_schedule_sweeps_every_minute_with_an_event(applied: Applied) -> None:
    job = applied.one("google_cloud_scheduler_job")
    assert job.values["schedule"] == "* * * * *"
    (target,) = job.values["http_target"]
    sweep = by_entry_point(applied)["sweep"]
    assert target["uri"] == service(sweep)["uri"] == target["oidc_token"][0]["audience"]
    assert may_call(applied, sweep, target["oidc_token"][0]["service_account_email"])
    event = from_http(target["headers"], base64.b64decode(target["body"]))
    assert event.data == {"message": {}}


def test_only_the_api_is_reached_from_outside(applied: Applied) -> None:
    ingress = {e: service(f)["ingress_settings"] for e, f in by_entry_point(applied).items()}
    assert {e for e, setting in ingress.items() if setting == "ALLOW_ALL"} == {"api"}
    assert set(ingress.values()) == {"ALLOW_ALL", "ALLOW_INTERNAL_ONLY"}
    grants = applied.all("google_cloud_run_v2_service_iam_member")
    public = {g.values["name"] for g in grants if g.values["member"] == "allUsers"}
    assert public == {"xmcloud-api"}


def test_the_api_has_time_for_what_takes_long(applied: Applied) -> None:
    """Completing an upload takes up to five minutes; a long poll waits for less than one."""
    seconds = service(by_entry_point(applied)["api"])["timeout_seconds"]
    assert seconds >= max(300, MAX_WAIT_SECONDS)


def test_nothing_runs_while_nothing_happens(applied: Applied) -> None:
    assert {service(f)["min_instance_count"] for f in applied.all(FUNCTION)} == {0}


def test_the_archive_is_the_functions_folder_named_by_its_content(applied: Applied) -> None:
    archive = applied.one("archive_file").values
    assert Path(archive["source_dir"]).name == "functions"
    assert set(archive["excludes"]) == {"**/__pycache__/**", "**/*.pyc"}
    (name,) = {
        f.values["build_config"][0]["source"][0]["storage_source"][0]["object"]
        for f in applied.all(FUNCTION)
    }
    assert name == f"functions-{archive['output_sha256']}.zip"
