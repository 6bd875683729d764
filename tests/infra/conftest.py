"""Terraform itself, with providers that speak of the real schema and reach nobody."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.infra.provider.server import serving

ROOT = Path(__file__).parents[2]
TERRAFORM = ROOT / "infra" / "terraform"
SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.json"))
ADMIN = "ann@example.com"
ROBOT = "ci@other-project.iam.gserviceaccount.com"
MINIMAL = {"project_id": "my-project", "region": "europe-west4", "admins": [ADMIN]}
FULL = MINIMAL | {
    "admins": [ADMIN, ROBOT],
    "api_invokers": ["allUsers", "group:team@example.com"],
    "queues": ["nightly"],
    "pools": ["local", "lab"],
    "vertex": {
        "locations": ["europe-west4", "us-central1"],
        "network": "projects/1/global/networks/n",
    },
    "builds": {"location": "europe-west4"},
    "worker_identity": {
        "issuer_uri": "https://issuer.example.com",
        "attribute_condition": "assertion.sub.startsWith('worker-')",
    },
    "workers_pull_directly": True,
    "vpc_connector": {"network": "default", "ip_cidr_range": "10.8.0.0/28"},
    "otlp_endpoint": "http://collector:4318",
    "kms_key": "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k",
    "alert_emails": ["a@example.com", "b@example.com"],
    "budget": {"billing_account": "012345-6789AB-CDEF01", "amount": 100},
}  # fmt: skip
"""Everything that can be switched on."""


@dataclass(frozen=True, slots=True)
class Terraform:
    """The program, on a folder of configuration."""

    environ: Mapping[str, str]
    folder: Path = TERRAFORM

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = ["terraform", f"-chdir={self.folder}", *words]
        return subprocess.run(
            argv, env=self.environ, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def told(self, *words: str) -> str:
        """What it prints; fails unless it succeeds."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def plan(self, variables: Mapping[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        file = Path(self.environ["TF_DATA_DIR"]) / "variables.tfvars.json"
        file.write_text(json.dumps(variables))
        options = ("-input=false", "-lock=false", "-no-color", f"-var-file={file}")
        return self.run("plan", *options, *words)


@dataclass(frozen=True, slots=True)
class Resource:
    """One of those that were applied."""

    address: str
    type: str
    name: str
    values: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Applied:
    """What there is after an apply; computed values are made up: TYPE.NAME-ATTRIBUTE."""

    resources: tuple[Resource, ...]
    outputs: Mapping[str, Any]

    def all(self, type_name: str) -> list[Resource]:
        return [each for each in self.resources if each.type == type_name]

    def one(self, type_name: str, **values: Any) -> Resource:
        found = [r for r in self.all(type_name) if values.items() <= r.values.items()]
        assert len(found) == 1, (type_name, values, [each.address for each in found])
        return found[0]


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terraform]:
    """Initialised; skips where there is no terraform, unless services are required."""
    if shutil.which("terraform") is None:
        how = "terraform 1.11 or newer: install it from https://developer.hashicorp.com/terraform"
        if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
            pytest.fail(how, pytrace=False)
        pytest.skip(how)
    folder = tmp_path_factory.mktemp("tf")
    with serving(SCHEMAS, folder) as providers:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        environ = own | {
            "CHECKPOINT_DISABLE": "1",
            "TF_DATA_DIR": str(folder),
            "TF_IN_AUTOMATION": "1",
            "TF_REATTACH_PROVIDERS": providers,
        }
        terraform = Terraform(environ)
        terraform.told("init", "-backend=false", "-input=false", "-no-color")
        yield terraform


@pytest.fixture(scope="session")
def applied(terraform: Terraform, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """Everything switched on; a second plan then finds nothing to change."""
    folder = tmp_path_factory.mktemp("applied")
    state, plan = folder / "terraform.tfstate", folder / "plan"
    planned = terraform.plan(FULL, f"-state={state}", f"-out={plan}")
    assert planned.returncode == 0, planned.stderr
    terraform.told(
        "apply", "-input=false", "-lock=false", "-no-color", f"-state={state}", str(plan)
    )
    again = terraform.plan(FULL, f"-state={state}", "-detailed-exitcode")
    assert again.returncode == 0, again.stdout + again.stderr
    told = json.loads(terraform.told("show", "-json", str(state)))["values"]
    outputs = {name: output["value"] for name, output in told["outputs"].items()}
    return Applied(tuple(_resources(told["root_module"])), outputs)


@pytest.fixture(scope="session")
def least(terraform: Terraform) -> str:
    """What terraform plans with what is required alone."""
    planned = terraform.plan(MINIMAL)
    assert planned.returncode == 0, planned.stderr
    return planned.stdout


def _resources(module: Mapping[str, Any]) -> Iterator[Resource]:
    for each in module.get("resources", []):
        yield Resource(each["address"], each["type"], each["name"], each["values"])
    for child in module.get("child_modules", []):
        yield from _resources(child)
