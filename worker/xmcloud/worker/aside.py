"""Calls that block, in threads that keep nobody from ending."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def aside(work: Callable[[], Result]) -> Result:
    """The result of a call that may hang: when it is cancelled, or the program ends, it is left.

    As many at once as there are, unlike those of `asyncio.to_thread`.
    """
    future: Future[Result] = Future()
    threading.Thread(target=_run, args=(work, future), daemon=True).start()
    return await asyncio.wrap_future(future)


def _run(work: Callable[[], Result], future: "Future[Result]") -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
