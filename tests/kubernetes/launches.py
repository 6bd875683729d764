"""Launches for the tests of this folder."""

from typing import Any

from tests.support.builders import draft
from xmcloud.core.models import Job
from xmcloud.core.platforms import Launch
from xmcloud.core.specs import Argument, Image, JobSpec, KubernetesOptions

LABEL = "xm-abcd-1"


def job(name: str = "train", number: int = 0, **spec: Any) -> Job:
    definition = {"executable": Image(image="example.com/train@sha256:1"), **spec}
    letters = "jklmnopq"
    return draft(JobSpec.model_validate(definition)).evolve(id=letters[number] * 16, name=name)


def launch(*jobs: Job, label: str = LABEL, **environment: str) -> Launch:
    return Launch(label, jobs, {each.id: environment for each in jobs})


def pair(**spec: Any) -> Launch:
    """A group whose second job names the first."""
    bound = (Argument(name="chief", value="%objectname(chief)%"),)
    return launch(job("chief", 0, **spec), job("helper", 1, arguments=bound, **spec))


def options(**fields: Any) -> KubernetesOptions:
    return KubernetesOptions(**fields)
