"""Cores of the machine for one job alone, among all workers of the machine."""

import os
import socket
from collections import Counter
from collections.abc import Sequence


def own_cores() -> tuple[int, ...]:
    """Those that this process may use; none where the system does not tell."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


class Cores:
    """Gives out cores that nobody else has, and shares them only when there are too few.

    A core is held by an abstract socket of its number, which ends with the worker that has it.
    """

    def __init__(self, cores: Sequence[int] = (), group: str = "xmcloud-core") -> None:
        self._cores = tuple(cores)
        self._group = group
        self._uses: Counter[int] = Counter()
        self._held: dict[int, socket.socket] = {}

    def __len__(self) -> int:
        return len(self._cores)

    def take(self, count: int) -> tuple[int, ...]:
        """None at all for more than there are: such a job may use them all."""
        if not 0 < count <= len(self._cores):
            return ()
        alone: list[int] = []
        for core in self._cores:
            if len(alone) < count and not self._uses[core] and self._hold(core):
                alone.append(core)
        others = sorted(
            (core for core in self._cores if core not in alone), key=self._uses.__getitem__
        )
        taken = (*alone, *others[: count - len(alone)])
        self._uses.update(taken)
        return tuple(sorted(taken))

    def restore(self, cores: Sequence[int]) -> tuple[int, ...]:
        """Those a job has already."""
        for core in cores:
            if not self._uses[core]:
                self._hold(core)
        self._uses.update(cores)
        return tuple(cores)

    def give_back(self, cores: Sequence[int]) -> None:
        self._uses.subtract(cores)
        for core in cores:
            if not self._uses[core] and (held := self._held.pop(core, None)):
                held.close()

    def _hold(self, core: int) -> bool:
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0{self._group}-{core}")
        except OSError:
            lock.close()
            return False
        self._held[core] = lock
        return True
