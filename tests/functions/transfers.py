"""Control planes that are exported and imported: filled, served, and looked at whole."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn

from tests.functions.api import TOKEN, Api, application, new_job
from tests.support.clock import START
from xmcloud.core.builds import BuildSpec, requested
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import BUILDS, POOLS, SECRETS, TARGETS, USAGE, Collection
from xmcloud.core.models import Block, Gathering, Job, PoolState, TargetState
from xmcloud.core.ports import Query
from xmcloud.core.protocol import Jobs, NewUnit, NewUnits
from xmcloud.core.secrets import Secret
from xmcloud.core.transfer import TRANSFERRED, carried
from xmcloud.core.usage import Usage
from xmcloud.xm_cloud.transfer_client import TransferClient

LARGE = random.Random(1).randbytes(8 * 1024 * 1024 + 7)
"""Two pieces."""

Contents = tuple[dict[str, dict[str, Any]], dict[str, bytes]]


@asynccontextmanager
async def served(plane: ControlPlane, home: Path) -> AsyncIterator[TransferClient]:
    """A client of the API over that control plane, for another thread than this one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = application(plane, home)
        config = uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server.serve([listener]))
        try:
            with TransferClient(f"http://127.0.0.1:{listener.getsockname()[1]}", TOKEN) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


async def fill(api: Api) -> Job:
    """Something of each kind: queues, people, groups, drafts, logs, what ran; a job that runs."""
    await api.call("POST", "/queues", {"name": "nightly", "priority": 7}, 201)
    await api.call("POST", "/queues/low/pause")
    await api.call("POST", "/projects", {"name": "vision"}, 201)
    await api.call("PUT", "/projects/vision/members/ada@example.org", {"role": "member"})
    token = {"name": "ci", "role": "viewer", "days": 3}
    await api.call("POST", "/projects/vision/tokens", token, 201)
    experiment = await api.experiment("Zürich\u2028and more")
    group = NewUnit(jobs=(new_job("chief", "nightly"), new_job("helper", "nightly")))
    await api.post(Jobs, f"/experiments/{experiment.id}/units", NewUnits(units=(group,)), 201)
    await api.job(queue=None, arguments=({"name": "lr", "value": 1e22},))
    session = await api.session()
    job = await api.ended(await api.job(), session)
    await _store_everything_else(api.plane, job)
    running = await api.running(await api.job(), session)
    log = {"event": "output", "job_id": running.id, "fence": 1, "offset": 0, "data": "bG9zcwo="}
    measured = {"start": START, "step_seconds": 5, "series": {"cpu": [1.0, None]}}
    told = {"event": "measured", "job_id": running.id, "fence": 1, "statistics": measured}
    await api.sync(session, reports=[log, told], statistics=measured)
    await api.job("waits")
    return running


async def _store_everything_else(plane: ControlPlane, job: Job) -> None:
    """What only builders, gatherings and platforms make."""
    later = START + timedelta(hours=1)
    gathering = Gathering(leader=job.id, deadline=later)
    block = {"t4": Block(until=later, message="no quota")}
    build = requested(BuildSpec(archive="0" * 64, name="digits"), "ada", START)
    usage = Usage(
        id=job.id,
        project="default",
        person="ada",
        month="2030-01",
        job_id=job.id,
        fence=1,
        kind="t4",
        gpus=1,
        gpu_seconds=3.5,
        ended_at=START,
    )
    await plane.store.commit(
        [
            BUILDS.create(build),
            USAGE.create(usage),
            SECRETS.create(Secret(project="vision", name="hub", set_by="ada", set_at=START)),
            POOLS.create(PoolState(name="gpu", gathering=gathering)),
            TARGETS.create(
                TargetState(name="vertex", submissions=1.5, refilled_at=START, blocks=block)
            ),
        ]
    )
    for key, data in {
        "content/large": LARGE,
        "content/empty": b"",
        "builds/log-1.txt": b"x",
    }.items():
        await plane.blobs.put(key, data)
    await plane.blobs.put("uploads/half/1", b"left behind")


async def contents(plane: ControlPlane) -> Contents:
    """Every document by collection and id, and every blob that is exported."""
    documents = {each.name: await _all(plane, each) for each in TRANSFERRED}
    keys = [key for key, _ in await plane.blobs.list("") if carried(key)]
    return documents, {key: await plane.blobs.get(key) for key in keys}


async def _all(plane: ControlPlane, collection: Collection[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    query = Query(collection.name, limit=400)
    page = await plane.store.find(query)
    while True:
        found |= {document.id: document.data for document in page.documents}
        if page.cursor is None:
            return found
        page = await plane.store.find(query.page(400, page.cursor))
