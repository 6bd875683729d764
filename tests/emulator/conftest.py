"""What the tests of the adapters for Google Cloud share."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.emulator.proxy import Proxy


@pytest.fixture
async def proxy(
    request: pytest.FixtureRequest,
    gcp_project: str,
    monkeypatch: pytest.MonkeyPatch,
    anyio_backend: str,
) -> AsyncIterator[Proxy]:
    """A proxy before the emulator whose variable the test names as the parameter."""
    proxy = Proxy(os.environ[request.param])
    monkeypatch.setenv(request.param, await proxy.start())
    yield proxy
    await proxy.stop()
