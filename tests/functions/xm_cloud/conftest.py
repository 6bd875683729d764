"""The launch API over a real control plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions.xm_cloud.server import TOKEN, serving
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.shared import close_clients


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A control plane that the environment names."""
    home = tmp_path / "control-plane"
    home.mkdir()
    with serving(home) as address:
        monkeypatch.setenv("XMCLOUD_URL", address)
        monkeypatch.setenv("XMCLOUD_TOKEN", TOKEN)
        yield address
        close_clients()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, TOKEN) as client:
        yield client
