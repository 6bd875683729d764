"""A member launches; a worker with an identity of its own runs it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functions.commands.running import answer, xmcloud
from tests.functions.signing_in.conftest import SILENT, Api
from tests.functions.signing_in.test_signing_in import written
from tests.support.google_identity import Google
from tests.support.servers import running
from xmcloud.core.identity import Role
from xmcloud.core.models import Job
from xmcloud.worker.settings import InvalidSettings, load_settings
from xmcloud.xm_cloud.credentials.google_identity import GoogleIdentity

SECONDS = 30.0


def test_a_job_of_a_member_on_a_worker_of_its_own(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, worker = api.member(Role.MEMBER), api.member(Role.WORKER)
    key = written(machine / "member.json", google.key(member))
    xmcloud("login", api.url, "--credentials", str(key))
    said = xmcloud("run", "--detach", "--json", "--", sys.executable, "-c", "print(6 * 7)")
    job = Job.model_validate_json(said.stdout)
    google.lifetime = 60
    with running_worker(api, google, machine, worker) as log:
        done = xmcloud("logs", "-f", job.id)
    assert "42" in done.stdout
    found = answer("show", job.experiment_id)
    assert found["experiment"]["creator"] == member
    assert [each["state"] for each in found["jobs"]] == ["completed"]
    assert google.asked.count("impersonate") > 1
    logged = log.read_text()
    assert not any(secret in logged for secret in (*google.given, *google.secrets))


@contextmanager
def running_worker(api: Api, google: Google, machine: Path, account: str) -> Iterator[Path]:
    """In a process of its own, with workload identity federation and no token; its log."""
    home = machine / "worker"
    config = written(home / "identity.json", google.federated(account, machine / "subject"))
    environ = {name: value for name, value in os.environ.items() if name not in SILENT} | {
        "PATH": os.defpath,
        "XMCLOUD_HOME": str(home),
        "XMCLOUD_CACHE": str(machine / "cache"),
        "XMCLOUD_URL": api.url.replace("127.0.0.1", "localhost"),
        "XMCLOUD_AUDIENCE": api.url,
        "XMCLOUD_WORKER_NAME": "federated",
        "GOOGLE_APPLICATION_CREDENTIALS": str(config),
    }
    argv = [sys.executable, "-P", "-m", "xmcloud.cli", "worker", "start"]
    with running(argv, machine / "worker.log", environ) as server:
        yield server.log
        assert server.stop() == 0


def test_what_a_worker_is_without_a_token(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = written(machine / "key.json", google.key(api.member(Role.WORKER)))
    xmcloud("login", api.url, "--credentials", str(key))
    settings = load_settings({}, os.environ)
    assert (settings.url, settings.token) == (api.url, None)
    assert isinstance(settings.identity().credentials, GoogleIdentity)
    monkeypatch.setenv("XMCLOUD_CACHE", str(machine / "cache"))
    done = answer("worker", "init", "--yes", "--name", "mine")
    home = machine / "home"
    assert done["written"]
    assert {path.name for path in home.iterdir()} == {"login.json", "id-token.json", "worker.json"}
    monkeypatch.setenv("HOME", str(machine))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert Path(answer("worker", "install")["path"]).is_relative_to(machine)
    xmcloud("logout")
    said = xmcloud("worker", "install", status=2).stderr
    assert "worker init" in said
    with pytest.raises(InvalidSettings, match="xmcloud login URL"):
        load_settings({}, os.environ)


def test_the_token_of_this_machine_is_not_the_workers_elsewhere(
    api: Api, google: Google, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home has a control plane of its own, too."""
    home = machine / "home"
    written(home / "control.json", {"url": "http://127.0.0.1:1"})
    (home / "token").write_text("own")
    (home / "token").chmod(0o600)
    config = google.federated("w@p.iam.gserviceaccount.com", machine / "subject")
    file = written(machine / "file.json", config)
    environment = {"XMCLOUD_HOME": str(home), "GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    here = load_settings({}, environment)
    assert here.token is not None
    there = load_settings({}, {**environment, "XMCLOUD_URL": api.url})
    assert there.token is None
    written(home / "worker.json", {"url": api.url})
    assert load_settings({}, environment).token is not None
