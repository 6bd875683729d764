"""How many requests one caller may make, kept by each process for itself."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import Request

from xmcloud.core.errors import RateLimited, Unauthorized
from xmcloud.core.identity import Permission, Principal

WORK_FACTOR = 10
"""How much more those may ask who run workers: a hundred of them may be one service account."""

REMEMBERED = 10_000
"""Buckets of one kind; one that is forgotten is full again."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many a second for ever, and `burst` at once."""

    per_second: float
    burst: float

    def times(self, factor: float) -> "Rate":
        return Rate(self.per_second * factor, self.burst * factor)


CALLER = Rate(50, 500)
GUESSES = Rate(1, 100)
"""Tokens from one address that are none."""


class Buckets:
    """A token bucket for each name; the least recently used are forgotten."""

    def __init__(
        self, rate: Rate, clock: Callable[[], float] = time.monotonic, size: int = REMEMBERED
    ) -> None:
        self._rate, self._clock, self._size = rate, clock, size
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str) -> float:
        """Takes one if it is allowed now: then 0, else the seconds until it is."""
        left, now = self._now(name), self._clock()
        if left < 1:
            return (1 - left) / self._rate.per_second
        self._left[name] = (left - 1, now)
        self._left.move_to_end(name)
        if len(self._left) > self._size:
            self._left.popitem(last=False)
        return 0.0

    def _now(self, name: str) -> float:
        left, at = self._left.get(name, (self._rate.burst, self._clock()))
        return min(self._rate.burst, left + (self._clock() - at) * self._rate.per_second)


class Rates:
    """Of one process. Without `callers` nothing is limited.

    `proxied`: a proxy that can be trusted appends the address it was asked from to the header
    X-Forwarded-For, as Cloud Run does.
    """

    def __init__(
        self,
        callers: Rate | None = CALLER,
        *,
        proxied: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callers = Buckets(callers, clock) if callers else None
        self._workers = Buckets(callers.times(WORK_FACTOR), clock) if callers else None
        self._guesses = Buckets(GUESSES, clock) if callers else None
        self._proxied = proxied

    def admit(self, caller: Principal) -> None:
        """The owner of an embedded control plane is not limited. Raises `RateLimited`."""
        buckets = self._workers if caller.may(Permission.WORK) else self._callers
        if buckets is not None and not caller.owner:
            _require(caller.name, buckets.take(caller.name))

    @contextmanager
    def guessing(self, request: Request) -> Iterator[None]:
        """Around looking at a token. Raises `RateLimited` for a wrong one, after too many of them
        from that address; who has a good one is served, whatever his neighbours do."""
        try:
            yield
        except Unauthorized:
            if self._guesses is not None:
                peer = self._peer(request)
                _require(peer, self._guesses.take(peer))
            raise

    def _peer(self, request: Request) -> str:
        forwarded = request.headers.get("x-forwarded-for", "") if self._proxied else ""
        last = forwarded.rpartition(",")[2].strip()
        return last or (request.client.host if request.client else "an unknown address")


def _require(who: str, seconds: float) -> None:
    if seconds > 0:
        raise RateLimited(who, math.ceil(seconds))
