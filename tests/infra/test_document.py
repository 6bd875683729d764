"""The documents of a deployment: variables, outputs, alerts, figures that follow from the code."""

import re

import pytest

from tests.infra.conftest import ROOT, TERRAFORM, Applied
from tests.infra.rights import rows

DOCS = ROOT / "docs"


def test_every_variable_is_in_the_document_as_it_is_declared() -> None:
    text = (TERRAFORM / "variables.tf").read_text("utf-8")
    declared = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', text, re.DOTALL | re.MULTILINE)
    assert list(rows("Variables")) == [
        [f"`{name}`", _default(body), _description(body)] for name, body in declared
    ]


def _default(body: str) -> str:
    found = re.search(r"^  default += (.*)$", body, re.MULTILINE)
    return f"`{found[1]}`" if found else "required"


def _description(body: str) -> str:
    found = re.search(r'^  description = "((?:[^"\\]|\\.)*)"$', body, re.MULTILINE)
    assert found is not None, body
    return found[1].replace('\\"', '"')


@pytest.mark.parametrize("name", ["install.md", "operation.md", "terraform.md"])
def test_outputs_that_are_named_are_there(applied: Applied, name: str) -> None:
    used = set(re.findall(r"\boutput (?:-raw )?(\w+)\)?`?", (DOCS / name).read_text("utf-8")))
    assert used & applied.outputs.keys()
    assert {each for each in used if "_" in each} <= applied.outputs.keys()


def test_outputs_that_others_read_keep_their_names(applied: Applied) -> None:
    """By `xmcloud login --from-terraform` and by people's scripts."""
    assert {"api_url", "audience", "project_id", "region"} <= applied.outputs.keys()


def test_every_alert_has_a_row_that_says_what_to_do(applied: Applied) -> None:
    text = (DOCS / "operation.md").read_text("utf-8").partition("\n## Alerts\n")[2]
    named = set(re.findall(r"^\| (xmcloud: [^|]*) \|", text, re.MULTILINE))
    policies = applied.all("google_monitoring_alert_policy")
    assert named == {policy.values["display_name"] for policy in policies}


def test_the_plan_is_as_long_as_people_are_told(least: str) -> None:
    (plan,) = re.findall(r"Plan: \d+ to add, 0 to change, 0 to destroy\.", least)
    assert plan in (DOCS / "install.md").read_text("utf-8")


def test_tests_that_the_threat_model_names_are_there() -> None:
    text = (DOCS / "threat-model.md").read_text("utf-8")
    assert [
        name for name in re.findall(r"`(tests/[^`]+)`", text) if not (ROOT / name).exists()
    ] == []


def test_modules_that_are_described_are_those_that_are_there() -> None:
    named = {name.strip("` ") for row in rows("What it makes") for name in row[0].split(",")}
    assert named == {path.name for path in (TERRAFORM / "modules").iterdir()}
