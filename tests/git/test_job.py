"""A job of a git revision, from the API through a real worker to its end."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.functions.worker_rig import Rig, opened_rig
from tests.git.authors import head, new_repository, uncommitted, write
from tests.git.servers import PASSWORD, HttpServer
from xmcloud.core.models import JobState, ReasonCode
from xmcloud.core.names import random_id
from xmcloud.core.specs import GitSource
from xmcloud.worker.git.hosts import GitHost

pytestmark = pytest.mark.anyio
PROGRAM = """
import json, os, subprocess
commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
print(json.dumps({"commit": commit, "variables": dict(os.environ)}))
"""


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as opened:
        yield opened


@pytest.fixture
def hosts(
    monkeypatch: pytest.MonkeyPatch, https: HttpServer, certificate: Path, home: Path
) -> dict[str, GitHost]:
    monkeypatch.setenv("XMCLOUD_GIT_TOKEN", PASSWORD)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(certificate))
    monkeypatch.setenv("HOME", str(home))
    return {"127.0.0.1": GitHost(token="XMCLOUD_GIT_TOKEN", port=https.port)}


async def test_it_runs_what_was_left_uncommitted_and_sees_no_token(
    rig: Rig, hosts: dict[str, GitHost], served: Path
) -> None:
    path = f"private/{random_id()}"
    commit = new_repository(served / path, {"train.py": "raise SystemExit('committed')\n"})
    write(served / path, {"train.py": PROGRAM})
    source = GitSource(
        repository=f"git@127.0.0.1:{path}",
        commit=commit,
        diff=await rig.blob(uncommitted(served / path)),
        entrypoint=("python", "train.py"),
    )
    job = await rig.api.job(executable=source)
    async with rig.worker(git=hosts):
        job = await rig.over(job)
    assert job.state is JobState.COMPLETED, job.reason
    log = (await rig.log(job)).decode()
    told = json.load(io.StringIO(log))
    assert told["commit"] == commit == head(served / path)
    assert PASSWORD not in log + job.model_dump_json()
    assert not any(name.startswith("XMCLOUD_GIT") for name in told["variables"])


async def test_a_commit_that_nobody_has_fails_the_setup(
    rig: Rig, hosts: dict[str, GitHost], served: Path
) -> None:
    path = f"private/{random_id()}"
    new_repository(served / path, {"a": "a\n"})
    source = GitSource(repository=f"git@127.0.0.1:{path}", commit="1" * 40, entrypoint=("x",))
    job = await rig.api.job(executable=source)
    async with rig.worker(git=hosts):
        job = await rig.over(job)
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.SETUP_FAILED)
    assert "Push it, or capture the experiment again" in job.reason.message
    assert b"not our ref" in await rig.log(job)


async def test_an_address_with_a_password_is_not_taken_nor_repeated(rig: Rig) -> None:
    source = {"kind": "git_source", "repository": "https://ann:s3cret@host/x"}
    executable = {**source, "commit": "1" * 40, "entrypoint": ["x"]}
    experiment = await rig.api.experiment()
    answer = await rig.api.call(
        "POST",
        f"/experiments/{experiment.id}/units",
        status=422,
        json={"units": [{"jobs": [{"name": "x", "spec": {"executable": executable}}]}]},
    )
    assert "leave it out" in answer.text
    assert "s3cret" not in answer.text
