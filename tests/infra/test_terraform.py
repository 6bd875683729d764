"""What terraform says of the configuration: style, schema, plans, and wrong variables."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infra.conftest import FULL, TERRAFORM, Applied, Terraform


def test_it_is_formatted(terraform: Terraform) -> None:
    assert terraform.told("fmt", "-check", "-recursive", "-diff") == ""


def test_it_is_valid_without_a_warning(terraform: Terraform) -> None:
    told = json.loads(terraform.told("validate", "-json"))
    assert (told["valid"], told["diagnostics"]) == (True, [])


def test_everything_is_applied_and_then_stays(applied: Applied) -> None:
    assert applied.outputs["api_url"].startswith("https://xmcloud-api-")
    assert applied.outputs["registry"] == "europe-west4-docker.pkg.dev/my-project/xmcloud"
    assert {name for name, value in applied.outputs.items() if value is None} == set()


def test_the_least_has_neither_builds_nor_vertex(least: str) -> None:
    made = re.findall(r"# module\.\S+\.google_cloudfunctions2_function\.this will be", least)
    assert len(made) == 2
    assert "aiplatform.customJobs" not in least
    assert "cloudbuild.builds" not in least


def test_the_example_is_planned(terraform: Terraform) -> None:
    example = TERRAFORM / "terraform.tfvars.example"
    words = ("-input=false", "-lock=false", "-no-color", f"-var-file={example}")
    assert "Plan: " in terraform.told("plan", *words)


@pytest.fixture(scope="module")
def variables(terraform: Terraform, tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    """Without the resources, for which terraform would ask the providers first."""
    folder = tmp_path_factory.mktemp("variables")
    shutil.copy(TERRAFORM / "variables.tf", folder)
    alone = replace(terraform, folder=folder)
    assert alone.plan(FULL).returncode == 0
    return alone


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("project_id", "My project"),
        ("region", "europe"),
        ("firestore_location", "Europe"),
        ("admins", []),
        ("admins", ["group:team@example.com"]),
        ("admins", ["Ann@example.com"]),
        ("api_invokers", ["somebody@example.com"]),
        ("public_url", "https://host/path"),
        ("token_version", 0),
        ("lease_seconds", 10),
        ("queues", ["high"]),
        ("pools", ["vertex"]),
        ("rate_limit", "50"),
        ("api_timeout_seconds", 60),
        ("api_min_instances", 11),
        ("api_max_instances", 0),
        ("vertex", {"locations": []}),
        ("vertex", {"locations": ["us-central1"], "per_minute": 61}),
        ("builds", {"keep_days": 0}),
        ("worker_identity", {"issuer_uri": "https://a", "attribute_condition": " "}),
        ("vpc_connector", {"network": "n", "ip_cidr_range": "10.0.0.0/16"}),
        ("kms_key", "key"),
        ("otlp_endpoint", "collector:4318"),
        ("alert_emails", ["nobody"]),
        ("queue_age_alert_seconds", 1),
        ("budget", {"billing_account": "mine", "amount": 1}),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variables: Terraform, name: str, value: Any) -> None:
    refused = variables.plan(FULL | {name: value})
    assert refused.returncode == 1
    assert "Invalid value for variable" in refused.stderr
    assert f"var.{name}" in refused.stderr or f'variable "{name}"' in refused.stderr


def test_every_variable_with_a_domain_has_a_validation_that_is_tested() -> None:
    text = (TERRAFORM / "variables.tf").read_text("utf-8")
    blocks = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', text, re.DOTALL | re.MULTILINE)
    unchecked = {name for name, body in blocks if "validation" not in body}
    assert unchecked == {"workers_pull_directly", "delete_protection"}
    assert all("description" in body for _, body in blocks)
    marks = test_a_wrong_variable_is_refused_by_name.pytestmark
    assert {name for name, _ in marks[0].args[1]} == {name for name, _ in blocks} - unchecked


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("ack_deadline_seconds", "ack_deadline", "Unsupported argument"),
        ("  topic   ", "  subject ", "Missing required argument"),
        ("expiration_policy {", "expiration {", "Unsupported block type"),
        ("retry_policy {", 'retry_policy {\n  often = "yes"', "Unsupported argument"),
        ("google_pubsub_subscription", "google_pubsub_subscriptions", "Invalid resource type"),
        ('"google_pubsub_topic"', '"google_storage_bucket"', "Missing required argument"),
    ],
)
def test_the_providers_schema_is_enforced(
    terraform: Terraform, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    """A mistake in a copy of a module is found, so that no mistake in the module itself is."""
    copy = tmp_path / "event"
    shutil.copytree(TERRAFORM / "modules" / "event", copy)
    main = copy / "main.tf"
    text = main.read_text("utf-8")
    assert right in text
    main.write_text(text.replace(right, wrong), "utf-8")
    mistaken = replace(
        terraform, folder=copy, environ={**terraform.environ, "TF_DATA_DIR": str(tmp_path / "data")}
    )
    mistaken.told("init", "-backend=false", "-input=false", "-no-color")
    refused = mistaken.run("validate", "-no-color")
    assert refused.returncode == 1
    assert said in refused.stderr


def test_its_own_tests_pass(terraform: Terraform) -> None:
    said = terraform.told("test", "-no-color")
    assert re.search(r"Success! [1-9]\d* passed, 0 failed\.", said), said


def test_nobody_is_made_owner_or_editor(applied: Applied) -> None:
    roles = {each.values["role"] for each in applied.resources if "role" in each.values}
    assert {
        role for role in roles if re.search(r"roles/(owner|editor|viewer|.*admin)$", role)
    } == set()


def test_the_token_is_in_no_state(applied: Applied) -> None:
    version = applied.one("google_secret_manager_secret_version")
    assert version.values["secret_data"] is None
    assert version.values.get("secret_data_wo") is None
    assert version.values["secret_data_wo_version"] == 1
