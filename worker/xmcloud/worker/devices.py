"""GPUs given out: whole ones to one job each, and shares of one to several."""

from collections.abc import Mapping, Sequence

from xmcloud.core.resources import is_gpu
from xmcloud.worker.gpus import Gpu

Share = tuple[Gpu, float]


class Devices:
    """What is left of each GPU."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = tuple(gpus)
        self._left = {gpu.uuid: 1.0 for gpu in gpus}

    def has(self, name: str) -> bool:
        """Whether that resource is drawn from these."""
        return is_gpu(name) and bool(self._gpus)

    def free(self, name: str) -> float:
        """So many whole ones and, at best, one with a part left."""
        left = [self._left[gpu.uuid] for gpu in self._of(name)]
        parts = [each for each in left if each < 1]
        return round(len(left) - len(parts) + max(parts, default=0.0), 6)

    def take(self, resources: Mapping[str, float]) -> tuple[Share, ...] | None:
        """All that is asked for, whole ones first; None when it is not there.

        Without any GPU there is nothing to give: then they are numbers that the settings announce.
        """
        if not self._gpus:
            return ()
        taken: list[Share] = []
        for name, size in _shares(resources):
            gpu = self._best(name, size)
            if gpu is None:
                self.give_back(taken)
                return None
            self._change(gpu, -size)
            taken.append((gpu, size))
        return tuple(taken)

    def restore(self, resources: Mapping[str, float], uuids: Sequence[str]) -> tuple[Share, ...]:
        """Those that `take` gave for these resources once, as far as they are still here."""
        there = {gpu.uuid: gpu for gpu in self._gpus}
        sizes = [size for _, size in _shares(resources)]
        shares = [(there[u], s) for u, s in zip(uuids, sizes, strict=False) if u in there]
        for gpu, size in shares:
            self._change(gpu, -size)
        return tuple(shares)

    def give_back(self, shares: Sequence[Share]) -> None:
        for gpu, size in shares:
            self._change(gpu, size)

    def _of(self, name: str) -> Sequence[Gpu]:
        """Those of that kind; all for a kind that the settings alone know of."""
        return [gpu for gpu in self._gpus if name in gpu.kinds] or self._gpus

    def _best(self, name: str, size: float) -> Gpu | None:
        """The least that will do: one with little left, of little memory."""
        able = [gpu for gpu in self._of(name) if self._left[gpu.uuid] >= size]
        return min(able, key=lambda gpu: (self._left[gpu.uuid], gpu.memory), default=None)

    def _change(self, gpu: Gpu, size: float) -> None:
        self._left[gpu.uuid] = round(self._left[gpu.uuid] + size, 6)


def _shares(resources: Mapping[str, float]) -> list[tuple[str, float]]:
    """What is asked of one device after the other: 1.5 of them is a whole one and a half."""
    found = []
    for name, amount in resources.items():
        if is_gpu(name):
            found += [(name, 1.0)] * int(amount)
            found += [(name, amount % 1)] if amount % 1 else []
    return found
