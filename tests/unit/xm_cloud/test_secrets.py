"""Secrets in launch scripts: only their names are sent, and no text is made of them."""

from typing import Any

import pytest

from xmcloud import xm, xm_local
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Command, JobSpec
from xmcloud.xm_cloud.comparing.differences import Section
from xmcloud.xm_cloud.comparing.facts import defined
from xmcloud.xm_cloud.packaging.package import Packaged
from xmcloud.xm_cloud.requests import jobs_of, new_unit

_KEY = xm.Secret("wandb")


def _spec(layer: Any = None, job: Any = None, added: Any = None) -> JobSpec:
    """Of a job with those variables of its packageable, its own and those of `add`."""
    spec = xm_local.LocalSpec()
    command = Command(command=("true",))
    packaged = Packaged("true", executable=command, executor_spec=spec, env_vars=layer or {})
    made = xm.Job(packaged, xm_local.Local(), env_vars=job)
    args = None if added is None else {"env_vars": added}
    (new,) = new_unit(jobs_of(made, args), xm.WorkUnitRole(), "http://127.0.0.1:8000").jobs
    return new.spec


def test_a_secret_is_sent_by_name() -> None:
    spec = _spec(job={"WANDB_API_KEY": _KEY, "MODE": 1})
    assert spec.secrets == {"WANDB_API_KEY": "wandb"}
    assert spec.environment == {"PYTHONUNBUFFERED": "1", "MODE": "1"}


@pytest.mark.parametrize(
    ("layers", "secrets"),
    [
        ({"layer": xm.parse_env_vars({"K": _KEY})}, {"K": "wandb"}),
        ({"layer": {"K": "plain"}, "job": {"K": _KEY}}, {"K": "wandb"}),
        ({"job": {"K": _KEY}, "added": {"K": xm.Secret("other")}}, {"K": "other"}),
        ({"job": {"K": _KEY}, "added": {"K": "plain"}}, {}),
    ],
)
def test_the_innermost_value_of_a_variable_counts(
    layers: dict[str, Any], secrets: dict[str, str]
) -> None:
    spec = _spec(**layers)
    assert spec.secrets == secrets
    assert ("K" in spec.environment) is not bool(secrets)


@pytest.mark.parametrize("name", ["", "Not A Name", "under_score"])
def test_a_name_that_no_secret_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="secrets"):
        _spec(job={"K": xm.Secret(name)})


def test_no_text_is_made_of_a_secret() -> None:
    with pytest.raises(RuntimeError, match="known to the job alone"):
        f"--key={_KEY}"


def test_definitions_differ_in_the_names_of_secrets() -> None:
    facts = defined(_spec(job={"WANDB_API_KEY": _KEY}))
    assert facts[Section.SECRETS] == {"WANDB_API_KEY": "wandb"}
    assert "WANDB_API_KEY" not in facts[Section.ENVIRONMENT]
