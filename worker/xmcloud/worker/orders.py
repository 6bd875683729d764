"""Which queue a worker takes from first."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Order(Protocol):
    """Asked before each claim, and told of each job that came."""

    def claim(self, queues: Collection[str], free: int) -> tuple[tuple[str, ...], int]:
        """Those queues, the first to be emptied first, and for how many of the free slots."""

    def took(self, queue: str) -> None:
        """A job of that queue came."""


class Strict:
    """A queue is looked at only when nothing waits in those before it."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    def claim(self, queues: Collection[str], free: int) -> tuple[tuple[str, ...], int]:
        return tuple(queue for queue in self._queues if queue in queues), free

    def took(self, queue: str) -> None:
        """Changes nothing."""


class Fair:
    """Queues share the jobs that are started in proportion to their weights.

    Each has a clock that runs slower the more weight it has, and the one that is behind goes
    first. A queue that was empty for a while has saved up nothing: it begins at the time of the
    others (as in start-time fair queueing; Goyal, Vin and Cheng, 1996).
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._clocks = dict.fromkeys(weights, 0.0)
        self._now = 0.0

    def claim(self, queues: Collection[str], free: int) -> tuple[tuple[str, ...], int]:
        asked = sorted((q for q in self._weights if q in queues), key=self._clocks.__getitem__)
        if not asked:
            return (), free
        self._now = max(self._now, self._clocks[asked[0]])
        asked.sort(key=self._time)
        share = self._weights[asked[0]] / sum(self._weights[queue] for queue in asked)
        return tuple(asked), max(1, round(free * share))

    def took(self, queue: str) -> None:
        if queue in self._weights:
            self._clocks[queue] = self._time(queue) + 1 / self._weights[queue]

    def _time(self, queue: str) -> float:
        return max(self._now, self._clocks[queue])
