"""The HTTP API over real adapters, in this process."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.functions.api import Api, HeardSignals, opened_api
from tests.support.clock import ManualClock
from tests.support.recording import RecordedStore, Recording
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.files.secrets import FileSecrets
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.control.plane import ControlPlane

LOOK_AGAIN = timedelta(milliseconds=10)
"""So soon does a waiting request see that the clock was moved."""


def sqlite_plane(home: Path, clock: ManualClock, signals: HeardSignals) -> ControlPlane:
    return ControlPlane(
        store=SqliteStore(home / "store.db"),
        queue=SqliteQueue(home / "queue.db", clock),
        blobs=FileBlobs(home / "blobs"),
        secrets=FileSecrets(home),
        clock=clock,
        look_again=LOOK_AGAIN,
        overlap=timedelta(milliseconds=200),
        signals=signals,
    )


def gcp_plane(project: str, clock: ManualClock, signals: HeardSignals) -> ControlPlane:
    from xmcloud.adapters.gcp.firestore import FirestoreStore
    from xmcloud.adapters.gcp.pubsub import PubSubQueue
    from xmcloud.adapters.gcp.storage import GcsBlobs

    return ControlPlane(
        store=FirestoreStore(project),
        queue=PubSubQueue(project),
        blobs=GcsBlobs(f"blobs-{secrets.token_hex(8)}"),
        clock=clock,
        look_again=LOOK_AGAIN,
        signals=signals,
    )


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
async def recorded_api(
    tmp_path: Path, recording: Recording, anyio_backend: str
) -> AsyncIterator[Api]:
    """On SQLite, with something done to it between two calls of the store."""
    clock, signals = ManualClock(), HeardSignals()
    plane = sqlite_plane(tmp_path, clock, signals)
    plane = replace(plane, store=RecordedStore(plane.store, recording))
    async with opened_api(plane, clock, signals, tmp_path) as api:
        yield api


@pytest.fixture(params=["sqlite", pytest.param("gcp", marks=pytest.mark.emulator)])
async def api(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Api]:
    clock, signals = ManualClock(), HeardSignals()
    if request.param == "sqlite":
        plane = sqlite_plane(tmp_path, clock, signals)
    else:
        plane = gcp_plane(request.getfixturevalue("gcp_project"), clock, signals)
        plane = replace(plane, secrets=FileSecrets(tmp_path))
    async with opened_api(plane, clock, signals, tmp_path) as api:
        yield api
