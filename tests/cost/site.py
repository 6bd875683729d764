"""A deployment and a worker of it, in which time passes when a scenario says so."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.cost.metering import Meter, MeteredBlobs, MeteredNetwork, MeteredQueue, MeteredStore
from tests.functions.api import HEADERS, Api, HeardSignals, opened_api
from tests.functions.worker_rig import Rig
from tests.support.builder import MemoryBuilder
from tests.support.clock import ManualClock
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.topics import event_subscriptions, permit_subscription
from xmcloud.worker import main as worker_main
from xmcloud.worker.family import set_subreaper

_SECONDS = 30.0


class SteppedLoop(asyncio.SelectorEventLoop):
    """Its time goes by as usual, and in leaps."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@dataclass
class Site:
    """`person` and `worker` are counted, `api` is not.

    By `clock` the control plane lives, by `machine` the worker measures.
    """

    api: Api
    person: Api
    worker: Rig
    network: MeteredNetwork
    meter: Meter
    clock: ManualClock
    machine: ManualClock
    builder: MemoryBuilder

    async def leap(self, seconds: float) -> None:
        """The worker measures what is due, then time leaps for everybody else."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        self.machine.advance(seconds)
        await self.machine.sleeper()
        self.clock.advance(seconds)
        loop.ahead += seconds

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Of real seconds, however much the loop's time leaps."""
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"never happened: {what}"
            await asyncio.sleep(0.002)

    async def said(self, what: str, times: int) -> None:
        """Returns when the worker was answered so often."""
        said = self.network.said[what]
        await self.until(lambda: len(said) >= times, f"{times} times {what}")


@asynccontextmanager
async def opened_site(folder: Path, lease: timedelta) -> AsyncIterator[Site]:
    """With the queues and the one pool that Terraform makes, and a builder; `folder` is there."""
    meter, clock, signals, builder = Meter(), ManualClock(), HeardSignals(), MemoryBuilder()
    disk = MeteredBlobs(folder / "blobs", meter)
    plane = ControlPlane(
        store=MeteredStore(folder / "store.db", meter),
        queue=MeteredQueue(folder / "queue.db", clock, meter),
        blobs=disk,
        clock=clock,
        signals=signals,
        lease=lease,
        heartbeat=lease / 3,
        builder=builder,
    )
    permits = [permit_subscription(queue, "local") for queue in ("high", "default", "low")]
    # As in a process that has found its store's schema up to date, for good.
    plane.schema.known = plane.schema.done = True
    await plane.queue.subscribe([*permits, *event_subscriptions()])
    async with opened_api(plane, clock, signals, folder) as api:
        inner = httpx.ASGITransport(api.app)
        own = MeteredNetwork(inner, meter, "person")
        network = MeteredNetwork(inner, meter, "worker")
        async with httpx.AsyncClient(
            transport=own, base_url="http://api", headers=HEADERS, timeout=None
        ) as http:
            person = replace(api, http=http)
            rig = Rig(api, network, disk, folder)
            with pytest.MonkeyPatch.context() as patch:
                machine = ManualClock()
                patch.setattr(worker_main, "SystemClock", lambda: machine)
                try:
                    yield Site(api, person, rig, network, meter, clock, machine, builder)
                finally:
                    set_subreaper(False)
