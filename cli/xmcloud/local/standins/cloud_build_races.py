"""Waiting for whichever comes first."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first(*works: Coroutine[Any, Any, object]) -> int:
    """The place of the one that ends first; the others are cancelled, and ended on return."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        place, first = next((n, task) for n, task in enumerate(tasks) if task.done())
        first.result()
        return place
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
