"""Groups of jobs that start together, on one worker and on several."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.functions.real_workers import Plane, new_job, opened_plane
from tests.functions.worker_rig import Rig, eventually, opened_rig
from xmcloud.core.control import gathering
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Jobs, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Argument, Command

SERVER = """
import os, socket
listener = socket.create_server(("", int(os.environ["XMCLOUD_PORT"])))
connection, _ = listener.accept()
connection.sendall(b"hello from the server")
"""
CLIENT = """
import json, os, socket, sys, time
host, port = json.loads(os.environ["XMCLOUD_PEERS"])["server"].split(":")
assert [f"{host}:{port}"] == sys.argv[1:], sys.argv
while True:
    try:
        connection = socket.create_connection((host, int(port)))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
print(connection.recv(100).decode())
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with opened_plane(tmp_path) as plane:
        yield plane


def pair() -> tuple[NewJob, NewJob]:
    """Two that talk to each other."""
    server = Command(command=(sys.executable, "-c", SERVER))
    client = Command(command=(sys.executable, "-c", CLIENT))
    address = Argument(value="%objectname(server)%")
    return new_job("server", server), new_job("client", client, arguments=(address,))


def test_a_group_talks_on_one_worker(plane: Plane) -> None:
    server, client = plane.launch(*pair())
    with plane.worker(slots=2):
        assert plane.over(client).state is JobState.COMPLETED
        assert plane.over(server).state is JobState.COMPLETED
    assert plane.log(client) == "hello from the server\n"


def test_groups_that_need_all_slots_of_two_workers_take_turns(plane: Plane) -> None:
    units = [plane.launch(*pair()) for _ in range(2)]
    with plane.worker("ant"), plane.worker("bee"):
        for server, client in units:
            done = [plane.over(server), plane.over(client)]
            assert [job.state for job in done] == [JobState.COMPLETED] * 2
            assert {job.attempts[0].worker for job in done} == {"ant", "bee"}
            assert plane.log(client) == "hello from the server\n"


def test_a_slot_is_kept_for_a_group_until_another_worker_is_free(
    plane: Plane, tmp_path: Path
) -> None:
    wait = f"until test -e {tmp_path}/go; do sleep 0.01; done"
    with ExitStack() as stack:
        stack.enter_context(plane.worker("ant"))
        stack.enter_context(plane.worker("bee"))
        (busy,) = plane.launch(new_job("busy", Command(command=("sh", "-c", wait))))
        plane.until(busy, JobState.RUNNING)
        server, client = plane.launch(*pair())
        (tmp_path / "go").touch()
        assert plane.over(client).state is JobState.COMPLETED
        assert plane.over(server).state is JobState.COMPLETED


@pytest.fixture
async def rig(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Rig]:
    async with opened_rig(tmp_path) as rig:
        yield rig


async def launched(rig: Rig) -> list[Job]:
    """Two jobs of one group."""
    experiment = await rig.api.experiment()
    jobs = tuple(new_job(name, Command(command=("echo", name))) for name in ("one", "two"))
    body = NewUnits(units=(NewUnit(jobs=jobs),))
    return (await rig.api.post(Jobs, f"/experiments/{experiment.id}/units", body, 201)).jobs


CLAIM = {"slots": 1, "queues": ("default",), "ports": (5001,)}


@pytest.mark.anyio
async def test_a_kept_slot_is_for_the_job_that_it_is_kept_for(rig: Rig) -> None:
    bee = await rig.api.session("bee", slots=1)
    async with rig.worker():
        await eventually(lambda: rig.network.requests["sync"] > 0)
        group = await launched(rig)
        await eventually(lambda: rig.network.places > 0)
        later = await rig.launch("true")
        (other,) = (await rig.api.sync(bee, claim=CLAIM)).jobs
        (mine,) = [job for job in group if job.id != other.id]
        mine, later = await rig.over(mine), await rig.over(later)
    assert mine.state is JobState.COMPLETED
    assert set(mine.attempts[0].peers) == {"one", "two"}
    assert mine.attempts[0].finished_at is not None
    assert later.attempts[0].claimed_at >= mine.attempts[0].finished_at


@pytest.mark.anyio
async def test_a_slot_that_was_kept_in_vain_is_free_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "HOLD", timedelta(seconds=0.1))
    await rig.api.session("bee", slots=1)
    group = await launched(rig)
    async with rig.worker():
        await eventually(lambda: rig.network.places > 0)
        later = await rig.over(await rig.launch("true"))
    assert later.state is JobState.COMPLETED
    for each in group:
        job = await rig.api.get(Job, f"/jobs/{each.id}")
        assert (job.state, job.attempts) == (JobState.QUEUED, ())


@pytest.mark.anyio
async def test_a_worker_that_leaves_gives_the_group_back(rig: Rig) -> None:
    bee = await rig.api.session("bee", slots=1)
    await launched(rig)
    async with rig.worker():
        await eventually(lambda: rig.network.places > 0)
    assert (await rig.api.sync(bee, claim=CLAIM)).jobs == []
