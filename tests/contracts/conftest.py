"""Every adapter of every port, for the suites beside this file."""

import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.contracts.remote import QueueThroughTheApi
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.ports import Blobs, Queue, Store

emulated = pytest.mark.emulator


@pytest.fixture
def no_database(tmp_path: Path) -> Path:
    path = tmp_path / "no.db"
    path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    return path


@pytest.fixture(params=["sqlite", pytest.param("firestore", marks=emulated)])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Store]:
    store: Store
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "store.db")
    else:
        from xmcloud.adapters.gcp.firestore import FirestoreStore

        store = FirestoreStore(request.getfixturevalue("gcp_project"))
    yield store
    await store.close()


@pytest.fixture(params=["sqlite", "remote", pytest.param("pubsub", marks=emulated)])
def open_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Queue]:
    if request.param == "sqlite":
        return lambda: SqliteQueue(tmp_path / "queue.db", SystemClock())
    if request.param == "remote":
        return lambda: QueueThroughTheApi(tmp_path)
    from xmcloud.adapters.gcp.pubsub import PubSubQueue

    project = request.getfixturevalue("gcp_project")
    return lambda: PubSubQueue(project)


@pytest.fixture
async def queue(open_queue: Callable[[], Queue], anyio_backend: str) -> AsyncIterator[Queue]:
    queue = open_queue()
    yield queue
    await queue.close()


@pytest.fixture(params=["files", pytest.param("gcs", marks=emulated)])
async def blobs(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Blobs]:
    if request.param == "files":
        yield FileBlobs(tmp_path / "blobs")
        return
    from xmcloud.adapters.gcp.storage import GcsBlobs

    project = request.getfixturevalue("gcp_project")
    gcs = GcsBlobs(f"blobs-{secrets.token_hex(8)}", project)
    yield gcs
    await gcs.close()
