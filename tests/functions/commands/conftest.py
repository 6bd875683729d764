"""Commands in this process, over a control plane that is served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions.xm_cloud.server import TOKEN, serving
from xmcloud.xm_cloud.client import Client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the control plane."""
    return tmp_path_factory.mktemp("control-plane")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


@pytest.fixture(autouse=True)
def sign_in(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMCLOUD_URL", url)
    monkeypatch.setenv("XMCLOUD_TOKEN", TOKEN)
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XMCLOUD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, TOKEN) as client:
        yield client
