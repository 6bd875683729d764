"""What happens while nothing happens."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.planes import HEARTBEAT, sqlite_rig
from xmcloud.core.control.sessions import open_session
from xmcloud.core.control.sync import sync
from xmcloud.core.ports import Clock
from xmcloud.core.topics import subscriptions
from xmcloud.core.worker_protocol import OpenSession, Sync
from xmcloud.functions.sweeper import Alarms, run_sweeper

pytestmark = pytest.mark.anyio


class HeardAlarms(Alarms):
    """Tells when the sweeper has swept and waits."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.waited_for = asyncio.Event()

    async def ring(self) -> None:
        self.waited_for.set()
        await super().ring()


async def test_idling_costs_one_heartbeat_a_period(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path, ManualClock())
    alarms = HeardAlarms(rig.clock)
    plane = replace(rig.plane, alarm=alarms.set)
    granted = asyncio.Event()
    sweeper = asyncio.create_task(run_sweeper(plane, alarms, granted))
    await granted.wait()
    session = (await open_session(plane, "ant", OpenSession())).session
    listening = subscriptions(session.id, "local", ("high", "default", "low"))
    assert await plane.queue.pull(listening, 2, 0) == []
    await alarms.waited_for.wait()
    rig.costs.clear()
    pull = asyncio.create_task(plane.queue.pull(listening, 2, 3600))
    for _ in range(30):
        rig.clock.advance(HEARTBEAT)
        await sync(plane, session.id, Sync())
        for _ in range(20):
            await asyncio.sleep(0)
    assert rig.costs == Counter(read=30, write=30)
    pull.cancel()
    sweeper.cancel()
    await asyncio.gather(pull, sweeper, return_exceptions=True)
    await rig.close()
