"""What `add` and `package_async` return: results that coroutines await and threads ask for."""

import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
U = TypeVar("U")


class Pending(Awaitable[T], Generic[T]):
    """A result to come; may be awaited any number of times, or never."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self.heard = False

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        self.heard = True
        # A copy, so that who gives up waiting cancels nothing for the others.
        return asyncio.wrap_future(mapped(self._future, lambda result: result)).__await__()

    def result(self) -> T:
        """Blocks until it is there."""
        self.heard = True
        return self._future.result()

    def failure(self) -> BaseException | None:
        """Blocks until it is there; what it failed with."""
        return self._future.exception()


def loop_runs_here() -> bool:
    """Whether the caller runs in an event loop; imports nothing to find out."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def in_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Runs the function in a thread that does not keep the process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  it is raised where the future is asked
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def in_loop(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Runs the coroutine as a task of the loop that runs here."""
    import asyncio

    return _copied(asyncio.ensure_future(coroutine))


def _copied(task: "asyncio.Task[T]") -> Future[T]:
    future: Future[T] = Future()

    def settle(ended: "asyncio.Task[T]") -> None:
        if ended.cancelled():
            future.cancel()
            future.set_running_or_notify_cancel()
        elif error := ended.exception():
            future.set_exception(error)
        else:
            future.set_result(ended.result())

    task.add_done_callback(settle)
    return future


def mapped(source: Future[T], function: Callable[[T], U]) -> Future[U]:
    """The function's result for the source's; its failure if it failed."""
    future: Future[U] = Future()

    def settle(ended: Future[T]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if error := ended.exception():
            future.set_exception(error)
        else:
            future.set_result(function(ended.result()))

    source.add_done_callback(settle)
    return future
