"""Pulls that stay outstanding at the server between the calls of their callers.

A cancelled pull may have taken a message at the server already, which would then come again only
after the acknowledgement deadline. So no pull is cancelled before the end: one that its caller no
longer waits for is handed to the next caller, and if something comes first, that is given back.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xmcloud.core.ports import Subscription

HEAD_START = 0.2
"""Seconds that a new pull has to answer before later subscriptions are asked and believed."""

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Pull(Generic[T]):
    """A pull under way, whether or not somebody waits for it."""

    subscription: Subscription
    started: float
    task: asyncio.Task[list[T]]


class Pulls(Generic[T]):
    """Shares outstanding pulls among callers; `give_back` gets those that ended for nobody."""

    def __init__(
        self,
        begin: Callable[[Subscription, int], Coroutine[Any, Any, list[T]]],
        give_back: Callable[[Pull[T]], None],
    ) -> None:
        self._begin = begin
        self._give_back = give_back
        self._under_way: set[asyncio.Task[list[T]]] = set()
        self._idle: defaultdict[Subscription, list[Pull[T]]] = defaultdict(list)

    async def first(
        self, subscriptions: Sequence[Subscription], limit: int, until: float
    ) -> list[Pull[T]]:
        """The pulls that have ended once one has, or at `until`, in the order asked for."""
        pulls = {each: pull for each in subscriptions if (pull := self._resume(each))}
        try:
            await self._race(pulls, subscriptions, limit, until)
            done = [each for each in subscriptions if each in pulls and pulls[each].task.done()]
            return [pulls.pop(each) for each in done]
        finally:
            self._leave(pulls.values())

    async def cancel(self) -> None:
        """Ends all pulls; their callers see cancelled tasks."""
        pulls = list(self._under_way)
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)

    async def _race(
        self,
        pulls: dict[Subscription, Pull[T]],
        subscriptions: Sequence[Subscription],
        limit: int,
        until: float,
    ) -> None:
        """Starts the missing pulls one after the other: a later one seldom asks in vain."""
        clock = asyncio.get_running_loop().time
        tasks = []
        for subscription in subscriptions:
            if subscription not in pulls:
                pulls[subscription] = self._start(subscription, limit)
            pull = pulls[subscription]
            tasks.append(pull.task)
            if await _any_done(tasks, pull.started + HEAD_START - clock()):
                return
        await _any_done(tasks, until - clock())

    def _start(self, subscription: Subscription, limit: int) -> Pull[T]:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._begin(subscription, limit))
        pull = Pull(subscription, loop.time(), task)
        self._under_way.add(task)
        task.add_done_callback(lambda _: self._ended(pull))
        return pull

    def _resume(self, subscription: Subscription) -> Pull[T] | None:
        for pull in self._idle[subscription]:
            if not pull.task.done():
                self._idle[subscription].remove(pull)
                return pull
        return None

    def _leave(self, pulls: Iterable[Pull[T]]) -> None:
        for pull in pulls:
            self._idle[pull.subscription].append(pull)
            if pull.task.done():
                self._ended(pull)

    def _ended(self, pull: Pull[T]) -> None:
        self._under_way.discard(pull.task)
        if pull in self._idle[pull.subscription]:
            self._idle[pull.subscription].remove(pull)
            if not pull.task.cancelled() and pull.task.exception() is None:
                self._give_back(pull)


async def _any_done(tasks: Sequence[asyncio.Task[Any]], within: float) -> bool:
    done, _ = await asyncio.wait(tasks, timeout=max(0, within), return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
