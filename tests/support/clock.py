"""A clock that moves when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """`Clock`; those who sleep wake in the order in which their time comes."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []
        self._slept = asyncio.Event()

    def now(self) -> datetime:
        return self._now

    def advance(self, by: float | timedelta) -> None:
        """`by` in seconds, if it is a number."""
        self.set(self._now + (by if isinstance(by, timedelta) else timedelta(seconds=by)))

    def set(self, now: datetime) -> None:
        self._now = now
        due = sorted((s for s in self._sleepers if s[0] <= now), key=lambda sleeper: sleeper[0])
        self._sleepers = [s for s in self._sleepers if s[0] > now]
        for _, woken in due:
            if not woken.done():
                woken.set_result(None)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self._now + timedelta(seconds=seconds), woken)
        if seconds <= 0:
            woken.set_result(None)
        else:
            self._sleepers.append(sleeper)
            self._slept.set()
        try:
            await woken
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def sleeper(self) -> None:
        """Returns when somebody sleeps who began after the last call."""
        await asyncio.wait_for(self._slept.wait(), 10)
        self._slept.clear()
