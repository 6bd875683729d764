"""The release before this one, and homes that processes of both work in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.releases import Release, Site, unpacked
from xmcloud.local.home import Home


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return unpacked(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environments of jobs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def site(tmp_path: Path, cache: Path) -> Iterator[Site]:
    """Nothing runs there yet."""
    site = Site(Home(tmp_path / "home"), cache)
    yield site
    site.close()
