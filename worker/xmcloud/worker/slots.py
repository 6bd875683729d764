"""How much of the worker is free."""

import asyncio
import os
from collections.abc import Mapping

import psutil


def machine_resources() -> dict[str, float]:
    """What this machine has, in the units of a job's requirements: cores and bytes."""
    return {"cpu": float(os.cpu_count() or 1), "memory": float(psutil.virtual_memory().total)}


class Slots:
    """Places for jobs, each with the resources its job asked for."""

    def __init__(self, total: int, resources: Mapping[str, float]) -> None:
        self._total = total
        self._resources = dict(resources)
        self._taken: dict[tuple[str, int], Mapping[str, float]] = {}
        self.available = asyncio.Event()
        self.available.set()
        self.busy = asyncio.Event()
        self.given_back = asyncio.Event()

    @property
    def free(self) -> int:
        return max(0, self._total - len(self._taken))

    def free_resources(self) -> dict[str, float]:
        """What is left of each; one that is used up is left out."""
        left = dict(self._resources)
        for used in self._taken.values():
            for name, amount in used.items():
                left[name] = left.get(name, 0.0) - amount
        return {name: amount for name, amount in left.items() if amount > 0}

    def take(
        self,
        key: tuple[str, int],
        resources: Mapping[str, float],
        instead_of: tuple[str, int] | None = None,
    ) -> None:
        """A place, or the one that another key has, if it has one."""
        if instead_of is not None:
            self._taken.pop(instead_of, None)
        self._taken[key] = resources
        self._tell()

    def give_back(self, key: tuple[str, int]) -> None:
        """Idempotent."""
        if self._taken.pop(key, None) is not None:
            self._tell()
            self.given_back.set()

    def _tell(self) -> None:
        for event, holds in ((self.available, self.free > 0), (self.busy, bool(self._taken))):
            if holds:
                event.set()
            else:
                event.clear()
