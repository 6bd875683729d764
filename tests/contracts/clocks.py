"""The machine's clock, and one that moves when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    def __init__(self) -> None:
        self._now = datetime(2030, 1, 1, tzinfo=UTC)
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []
        self._slept = asyncio.Event()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        end = self._now + timedelta(seconds=seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((end, woken))
        self._slept.set()
        await woken

    async def sleeper(self) -> None:
        """Returns when somebody sleeps who began after the last call."""
        await asyncio.wait_for(self._slept.wait(), 10)
        self._slept.clear()

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        for end, woken in self._sleepers:
            if end <= self._now and not woken.done():
                woken.set_result(None)
        self._sleepers = [s for s in self._sleepers if not s[1].done()]
