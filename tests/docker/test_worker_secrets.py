"""A container receives its secrets, and its log does not show them."""

import hashlib
from pathlib import Path

import pytest

from tests.functions.real_workers import new_job, opened_plane
from tests.support.engine import DockerEngine
from xmcloud.core.specs import Image

pytestmark = pytest.mark.docker

_VALUE = "hunter22/&hunter?22"


def test_a_container_has_its_secret(docker_engine: DockerEngine, tmp_path: Path) -> None:
    script = 'printf %s "$KEY" | sha256sum | cut -c-64; echo "it is $KEY"; echo "$KEY" | base64'
    image = Image(image=docker_engine.base_image, command=("bash", "-c", script))
    with opened_plane(tmp_path) as plane:
        path = "/projects/default/secrets/wandb"
        plane.http.put(path, json={"value": _VALUE}).raise_for_status()
        (job,) = plane.launch(new_job("train", image, secrets={"KEY": "wandb"}))
        with plane.worker(environment=docker_engine.environment):
            job = plane.over(job)
            log = plane.log(job)
    digest = hashlib.sha256(_VALUE.encode()).hexdigest()
    assert log == f"{digest}\nit is {'*' * len(_VALUE)}\n{'*' * 28}\n"
    assert _VALUE not in job.model_dump_json()
    assert not any(
        _VALUE.encode() in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()
    )
