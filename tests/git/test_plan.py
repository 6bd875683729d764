"""From a job of a git revision to what is started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.git.authors import commit, git, head, new_repository, uncommitted, write
from tests.git.conftest import Machine
from tests.support.builders import starting
from xmcloud.core.models import Job
from xmcloud.core.specs import Argument, GitSource, JobSpec
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import ApiClient
from xmcloud.worker.containers import Containers
from xmcloud.worker.environments import Environments
from xmcloud.worker.git.hosts import GitHost
from xmcloud.worker.preparation import Plan, Preparation
from xmcloud.worker.settings import InvalidSettings, load_settings
from xmcloud.worker.setup import SetupFailed
from xmcloud.worker.slots import Allotment

pytestmark = pytest.mark.anyio
DIFF, BUNDLE = "d" * 64, "b" * 64


def job(source: GitSource) -> Job:
    return starting(JobSpec(executable=source, arguments=(Argument(value="x"),)))


async def planned(machine: Machine, source: GitSource, blobs: Mapping[str, bytes]) -> Plan:
    """With blobs that are cached already: nothing listens at the control plane's address."""
    cache, attempt = machine.folder / "cache", machine.folder / "attempt"
    write(cache / "blobs", blobs)
    async with ApiClient.to("http://127.0.0.1:1", "token") as client:
        preparation = Preparation(
            BlobCache(cache, client),
            Environments(cache),
            Containers(),
            machine.revisions,
            machine.base,
        )
        folder = AttemptFolder(attempt, machine.folder / "checkpoint")
        plan = await preparation.plan(job(source), folder, Allotment(), machine.steps(attempt))
    assert isinstance(plan, Plan)
    return plan


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A clone with a commit that was not pushed, and changes that were not committed."""
    new_repository(tmp_path / "origin", {"src/train.py": "one\n"})
    folder = tmp_path / "mine"
    git(tmp_path, "clone", "--quiet", str(tmp_path / "origin"), str(folder))
    commit(folder, {"src/train.py": "two\n"})
    write(folder, {"src/new.py": "new\n"})
    return folder


async def test_the_command_runs_in_the_revision_as_it_was_left(
    machine: Machine, mine: Path, tmp_path: Path
) -> None:
    machine.hosts["example.com"] = GitHost(token="XMCLOUD_GIT_TOKEN")
    machine.variables = {"XMCLOUD_GIT_TOKEN": "s3cret"}
    git(mine, "bundle", "create", "--quiet", "../bundle", "HEAD", "--not", "--remotes")
    blobs = {DIFF: uncommitted(mine), BUNDLE: (tmp_path / "bundle").read_bytes()}
    source = GitSource(
        repository=f"file://{tmp_path}/origin",
        commit=head(mine),
        branch="main",
        diff=DIFF,
        bundle=BUNDLE,
        directory="src",
        entrypoint=("python", "train.py"),
    )
    plan = await planned(machine, source, blobs)
    assert list(plan.argv) == ["python", "train.py", "x"]
    assert plan.directory == machine.folder / "attempt" / "work" / "src"
    assert (plan.directory / "train.py").read_text() == "two\n"
    assert (plan.directory / "new.py").read_text() == "new\n"
    assert plan.environment["PATH"].startswith(f"{plan.environment['VIRTUAL_ENV']}/bin:")
    assert not any(name.startswith(("GIT_", "XMCLOUD_GIT")) for name in plan.environment)


async def test_a_folder_that_is_not_in_the_repository_is_named(
    machine: Machine, mine: Path, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    source = GitSource(
        repository=f"file://{origin}", commit=head(origin), directory="lib", entrypoint=("x",)
    )
    with pytest.raises(SetupFailed, match="repository has no folder 'lib'"):
        await planned(machine, source, {})


def settings(tmp_path: Path, git: Any) -> dict[str, GitHost]:
    flags = {"home": tmp_path, "url": "http://127.0.0.1:1", "token": "x", "git": git}
    return load_settings(flags, {}).git


def test_hosts_stand_in_the_settings(tmp_path: Path) -> None:
    hosts = {
        "github.com": {"token": "XMCLOUD_GIT_TOKEN"},
        "git.corp": {"over": "ssh", "port": 7999},
    }
    assert settings(tmp_path, hosts)["git.corp"] == GitHost(over="ssh", port=7999)


@pytest.mark.parametrize(
    "host",
    [
        {"token": "the-token-itself"},
        {"token": "HOME"},
        {"token": "XMCLOUD_GIT_TOKEN", "over": "ssh"},
        {"over": "http"},
    ],
)
def test_a_wrong_host_is_named(tmp_path: Path, host: Any) -> None:
    with pytest.raises(InvalidSettings, match=r"git\.github\.com"):
        settings(tmp_path, {"github.com": host})
