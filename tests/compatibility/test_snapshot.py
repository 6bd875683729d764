"""What releases before left in their stores is there, in the form of this one."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.releases import SNAPSHOTS, unpack
from tests.support.clock import ManualClock
from tests.support.planes import Rig, emulated_rig, make_bucket, sqlite_rig
from xmcloud.core import documents, queries
from xmcloud.core.control.migrating import load_schema
from xmcloud.core.control.sweep import sweep
from xmcloud.core.documents import EXPERIMENTS, JOBS, Collection
from xmcloud.core.migrations import GRACE, LATEST
from xmcloud.core.models import JobState
from xmcloud.core.ports import Filter, Query, Write

COLLECTIONS: list[Collection[Any]] = [
    value for value in vars(documents).values() if isinstance(value, Collection)
]


def stored(home: Path) -> list[Write]:
    """Every document of a store in SQLite."""
    with closing(sqlite3.connect(home / "store.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [
            Write.create(table, id, json.loads(data))
            for (table,) in tables.fetchall()
            for id, data in connection.execute(f'SELECT id, data FROM "{table}"')
        ]


@pytest.fixture(params=sorted(SNAPSHOTS.iterdir()), ids=lambda path: path.name)
def snapshot(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(params=["sqlite", pytest.param("gcp", marks=pytest.mark.emulator)])
async def rig(
    request: pytest.FixtureRequest, snapshot: Path, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Rig]:
    home, clock = tmp_path / "home", ManualClock()
    unpack(snapshot, home)
    if request.param == "sqlite":
        rig = sqlite_rig(home, clock)
    else:
        project = request.getfixturevalue("gcp_project")
        rig = emulated_rig(project, make_bucket(project), clock)
        await rig.store.apply(stored(home))
    yield rig
    await rig.close()


@pytest.mark.anyio
async def test_every_document_gets_the_form_in_which_it_is_written_now(rig: Rig) -> None:
    await sweep(rig.plane)
    rig.clock.advance(GRACE)
    await sweep(rig.plane)
    assert (await load_schema(rig.plane))[0].version == LATEST
    for collection in COLLECTIONS:
        for document in (await rig.store.find(Query(collection.name))).documents:
            item = collection.read(document).item
            now = {**collection.data(item), "body": ""}
            assert {**document.data, "body": ""} == now, f"{collection.name}/{document.id}"
    found, _ = await EXPERIMENTS.find(rig.store, queries.experiments_in("default"))
    assert len(found) == 7
    await _assert_owners(rig)


async def _assert_owners(rig: Rig) -> None:
    """Of the jobs, as queries find them: the clone's are of who made it."""
    for creator, count in (("ada", 11), ("grace", 3)):
        where = (Filter("project", "==", "default"), Filter("creator", "==", creator))
        assert await rig.store.count(Query("jobs", where)) == count


@pytest.mark.anyio
async def test_an_instance_of_the_release_before_goes_on_meanwhile(
    rig: Rig, tmp_path: Path
) -> None:
    """It replaces a document in its own form after the pass; a later pass finds that."""
    old = {(write.collection, write.id): write.data for write in stored(tmp_path / "home")}
    await sweep(rig.plane)
    job = (await JOBS.find(rig.store, queries.in_state(JobState.QUEUED)))[0][0].document
    await rig.store.commit([Write.replace("jobs", job, old["jobs", job.id])])
    for _ in range(2):
        rig.clock.advance(GRACE)
        await sweep(rig.plane)
    assert (await load_schema(rig.plane))[0].version == LATEST
    await _assert_owners(rig)
