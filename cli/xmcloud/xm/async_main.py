"""Asynchronous functions called from synchronous ones."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def run_in_asyncio_loop(function: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, _T]:
    """Make an `async def main` callable by whatever calls `main`, in an event loop of its own."""

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        import asyncio  # takes longer to import than this whole package

        return asyncio.run(function(*args, **kwargs))

    return run
