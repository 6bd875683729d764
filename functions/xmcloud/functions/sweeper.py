"""Sweeps on time where a process may stay up: embedded, and on the emulators.

It sleeps until something falls due and does not look at the store before; on Google Cloud,
Scheduler calls the sweep instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sessions import regrant_leases
from xmcloud.core.control.sweep import sweep
from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import Clock

RETRY = timedelta(seconds=2)


class Alarms:
    """When each subject falls due; a subject that is set again is due then instead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, datetime] = {}
        self._changed = asyncio.Event()

    def set(self, subject: str, due: datetime) -> None:
        self._due[subject] = due
        self._changed.set()

    async def ring(self) -> None:
        """Returns when something has fallen due, and forgets what has."""
        while True:
            self._changed.clear()
            now = self._clock.now()
            due = [subject for subject, time in self._due.items() if time <= now]
            if due:
                for subject in due:
                    del self._due[subject]
                return
            await self._wait(min(self._due.values(), default=None))

    async def _wait(self, until: datetime | None) -> None:
        tasks: list[asyncio.Task[object]] = [asyncio.create_task(self._changed.wait())]
        if until is not None:
            seconds = (until - self._clock.now()).total_seconds()
            tasks.append(asyncio.create_task(self._clock.sleep(max(0.0, seconds))))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


async def run_sweeper(
    plane: ControlPlane, alarms: Alarms, granted: asyncio.Event | None = None
) -> None:
    """Grants open sessions a new lease, since nobody could renew while this was down; sweeps.

    No worker must be answered before `granted` is set: its lease may look over until then.
    """
    await _tried(plane, alarms, regrant_leases)
    if granted is not None:
        granted.set()
    while True:
        await _tried(plane, alarms, sweep)
        await alarms.ring()


async def _tried(
    plane: ControlPlane, alarms: Alarms, work: Callable[[ControlPlane], Awaitable[object]]
) -> None:
    try:
        await work(plane)
    except XmcloudError as error:
        logging.getLogger(__name__).warning("Sweeping failed, to be tried again: %s", error)
        alarms.set("retry", plane.clock.now() + RETRY)
