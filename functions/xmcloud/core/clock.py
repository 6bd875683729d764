"""The system's clock."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """`Clock` on the operating system's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
