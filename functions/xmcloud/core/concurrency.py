"""Many calls to one service, some at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 16


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Returns when all are done; then raises the first failure, if any."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> None:
        async with turn:
            await work(item)

    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
