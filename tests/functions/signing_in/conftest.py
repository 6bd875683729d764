"""Commands of a machine where somebody signs in, a control plane of Google Cloud, and Google."""

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.google_identity import Google, google_identity
from tests.support.servers import running
from xmcloud.core.identity import Role
from xmcloud.local.processes import answers, free_port
from xmcloud.xm_cloud.credentials.credentials import Fixed
from xmcloud.xm_cloud.identity_client import IdentityClient

ADMIN = "root@p.iam.gserviceaccount.com"
SILENT = ("XMCLOUD_URL", "XMCLOUD_TOKEN", "XMCLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS")


@dataclass(frozen=True)
class Api:
    """A control plane that believes Google, and the home of its process."""

    url: str
    home: Path
    google: Google

    def as_(self, name: str) -> IdentityClient:
        """A client for somebody."""
        return IdentityClient(self.url, Fixed(self.google.id_token(name, self.url)))

    def member(self, role: Role, project: str = "*") -> str:
        """A service account with that role."""
        name = f"{role}-{secrets.token_hex(4)}@p.iam.gserviceaccount.com"
        with self.as_(ADMIN) as admin:
            admin.set_role(project, name, role)
        return name


@pytest.fixture(scope="package")
def stand_in() -> Iterator[Google]:
    with google_identity() as google:
        yield google


@pytest.fixture(scope="package")
def api(stand_in: Google, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """In a process of its own."""
    home, port = tmp_path_factory.mktemp("control-plane"), free_port()
    token = home / "token"
    token.touch(0o600)
    token.write_text(secrets.token_urlsafe(32))
    url = f"http://127.0.0.1:{port}"
    environ = {name: value for name, value in os.environ.items() if name not in SILENT} | {
        "XMCLOUD_HOME": str(home),
        "XMCLOUD_IDENTITY": "google",
        "XMCLOUD_AUDIENCE": url,
        "XMCLOUD_ADMINS": ADMIN,
        "XMCLOUD_GOOGLE_CERTS": stand_in.certs,
    }
    argv = [sys.executable, "-P", "-m", "xmcloud.local.serve", f"--home={home}", f"--port={port}"]
    with running(argv, home / "serve.log", environ) as server:
        server.ready(answers(port, "/v1/health"))
        yield Api(url, home, stand_in)
        said = server.output
    assert [token for token in stand_in.given if token in said] == []


@pytest.fixture
def google(stand_in: Google) -> Iterator[Google]:
    """As it is at first."""
    stand_in.lifetime, stand_in.down, stand_in.refuses = 3600.0, False, False
    stand_in.asked.clear()
    yield stand_in
    stand_in.lifetime, stand_in.down, stand_in.refuses = 3600.0, False, False


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home where nobody has signed in, and no gcloud."""
    for name in (*SILENT, "GCE_METADATA_HOST", "K_SERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
