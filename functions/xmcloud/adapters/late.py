"""Adapters that are made when they are first used, so that a process starts without their library.

A start is waited for; the first use of a library is not always part of what somebody waits for.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def late(make: Callable[[], _T]) -> _T:
    """What `make` will return, of which only coroutine methods may be used.

    It imports, which takes a while: a thread does that, and whoever else is served goes on.
    """
    return cast(_T, _Late(make))


class _Late:
    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._made: object = None

    async def close(self) -> None:
        if self._made is not None:
            await self._call("close")

    def __getattr__(self, method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:
            return await self._call(method, *arguments, **options)

        return call

    async def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        if self._made is None:
            async with self._making:
                self._made = self._made or await asyncio.to_thread(self._make)
        return await getattr(self._made, method)(*arguments, **options)
