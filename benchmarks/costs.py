"""Operations a job costs, memory of an idle stack, and what idling costs."""

import asyncio
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psutil

from benchmarks.figures import Figure
from benchmarks.stack import Stack, units
from xmcloud.adapters.files import FileBlobs
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.experiments import add_units, create_experiment
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sessions import open_session
from xmcloud.core.control.sync import sync
from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.protocol import NewExperiment
from xmcloud.core.topics import permit_subscription
from xmcloud.core.worker_protocol import Claim, Finished, OpenSession, Output, Started, Sync


def operations() -> list[Figure]:
    """Documents and messages moved from the creation of a job to its end, one job at a time."""
    costs: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_one_job(Path(folder), costs))
    return [
        Figure("documents written a job", costs["write"], "", limit=6.0),
        Figure("documents read a job", costs["read"], "", limit=12.0),
        Figure("messages published a job", costs["publish"], ""),
    ]


async def _one_job(folder: Path, costs: Counter[str]) -> None:
    def observe(kind: str, count: int) -> None:
        costs[kind] += count

    clock = SystemClock()
    plane = ControlPlane(
        SqliteStore(folder / "store.db", observe),
        SqliteQueue(folder / "queue.db", clock, observe),
        FileBlobs(folder / "blobs"),
        clock,
        look_again=timedelta(days=1),
    )
    experiment = await create_experiment(plane, NewExperiment(title="cost"), "key")
    session = (await open_session(plane, "bench", OpenSession())).session
    costs.clear()
    await add_units(plane, experiment.id, units(("true",), 1), "batch")
    permits = await plane.queue.pull([permit_subscription("default", "local")], 1, 0)
    claim = Sync(claim=Claim(slots=1, queues=("default",)))
    (job,) = (await sync(plane, session.id, claim)).jobs
    await plane.queue.acknowledge(permits)
    started = Started(job_id=job.id, fence=job.fence, at=clock.now())
    await sync(plane, session.id, Sync(reports=(started,)))
    reason = Reason(code=ReasonCode.EXITED, message="exit code 0", exit_code=0)
    output = Output.model_validate(
        {"job_id": job.id, "fence": job.fence, "offset": 0, "data": b"aGVsbG8K"}
    )
    finished = Finished(job_id=job.id, fence=job.fence, outcome=Outcome.COMPLETED, reason=reason)
    await sync(plane, session.id, Sync(reports=(output, finished)))
    await plane.queue.close()
    await plane.store.close()


def memory(stack: Stack) -> list[Figure]:
    """Of the control plane and the worker together, idle: what they do not share with others."""
    names = ("control-plane", "worker")
    total = 0
    for name, record in stack.plane.running().items():
        if name in names:
            main = psutil.Process(record.pid)
            for process in (main, *main.children(recursive=True)):
                total += process.memory_info().rss
    return [
        Figure(
            "memory of control plane and worker, idle",
            total / 1e6,
            "MB",
            limit=None if stack.emulators else 160.0,
        )
    ]
