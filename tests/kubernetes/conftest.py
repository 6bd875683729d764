"""A cluster of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kmock import Server

from tests.kubernetes.cluster import Emulator, Nodes, kubeconfig
from tests.support.clock import ManualClock
from xmcloud.adapters.kubernetes.connections import Kubeconfig
from xmcloud.adapters.kubernetes.platform import KubernetesPlatform


@pytest.fixture
async def nodes(anyio_backend: str) -> AsyncIterator[Nodes]:
    async with Emulator() as emulator, Server(emulator) as running:
        yield Nodes(emulator, str(running.url).rstrip("/"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def platform(
    nodes: Nodes, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[KubernetesPlatform]:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(nodes.url))
    platform = KubernetesPlatform(
        nodes.namespace,
        Kubeconfig(file, "live"),
        more_namespaces=["shared"],
        deadline=10.0,
        now=clock.now,
    )
    yield platform
    await platform.close()
