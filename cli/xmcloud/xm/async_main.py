"""Asynchronous functions called from synchronous ones."""

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def run_in_asyncio_loop(function: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, _T]:
    """Make an `async def main` callable by whatever calls `main`, in an event loop of its own.

    Called where a loop runs already, it blocks that one until it is done.
    """

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        import asyncio  # takes longer to import than this whole package

        def run_here() -> _T:
            return asyncio.run(function(*args, **kwargs))

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run_here()
        return _in_another_thread(run_here)

    return run


def _in_another_thread(function: Callable[[], _T]) -> _T:
    """A thread runs one event loop at most."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(copy_context().run, function).result()
