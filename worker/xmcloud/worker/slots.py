"""How much of the worker is free, and what each job has of it."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ValidationError

from xmcloud.core.resources import is_gpu
from xmcloud.worker.devices import Devices, Share
from xmcloud.worker.gpus import Gpu
from xmcloud.worker.machine import Machine

Key = tuple[str, int]


class Holding(BaseModel):
    """GPUs, by UUID, and cores that an attempt was given."""

    gpus: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()

    @classmethod
    def recalled(cls, file: Path) -> Self:
        try:
            return cls.model_validate_json(file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return cls()


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a job has of the machine for itself."""

    gpus: tuple[Gpu, ...] = ()
    cpus: tuple[int, ...] = ()
    """Cores of its own; none for a job that may use them all."""

    threads: int | None = None
    """As many as it asked for cores, if it did."""

    hides_gpus: bool = False
    """Whether the machine has GPUs that are not for it."""

    lacking: str = ""
    """What it asked for and this worker does not have; then it is not to be started."""

    def environment(self) -> dict[str, str]:
        """Variables that no job can change for itself."""
        if not self.gpus and not self.hides_gpus:
            return {}
        uuids = ",".join(gpu.uuid for gpu in self.gpus)
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": uuids,
            "NVIDIA_VISIBLE_DEVICES": uuids or "void",
        }

    def remember(self, file: Path) -> None:
        """For a later run of the worker; nothing of a job that has nothing to itself."""
        if self.gpus or self.cpus:
            held = Holding(gpus=tuple(gpu.uuid for gpu in self.gpus), cpus=self.cpus)
            file.write_text(held.model_dump_json(), encoding="utf-8")

    def defaults(self) -> dict[str, str]:
        """Variables that a job may set otherwise."""
        return {} if self.threads is None else {"OMP_NUM_THREADS": str(self.threads)}


@dataclass(frozen=True, slots=True)
class _Taken:
    resources: Mapping[str, float]
    allotment: Allotment
    shares: Sequence[Share] = ()


class Slots:
    """Places for jobs, each with the resources its job asked for."""

    def __init__(
        self, total: int, resources: Mapping[str, float], machine: Machine | None = None
    ) -> None:
        """`resources` are what is announced; GPUs and cores come from the machine."""
        machine = machine or Machine()
        self._total = total
        self._resources = dict(resources)
        self._devices = Devices(machine.gpus)
        self._cores = machine.cores
        self._hides_gpus = bool(machine.driver.gpus)
        self._taken: dict[Key, _Taken] = {}
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
        for taken in self._taken.values():
            for name, amount in taken.resources.items():
                left[name] = left.get(name, 0.0) - amount
        for name in filter(self._devices.has, left):
            left[name] = min(left[name], self._devices.free(name))
        return {name: amount for name, amount in left.items() if amount > 0}

    def take(
        self, key: Key, resources: Mapping[str, float], instead_of: Key | None = None
    ) -> Allotment:
        """A place, or the one that another key has, if it has one."""
        held = self._taken.pop(instead_of, None) if instead_of is not None else None
        if held is not None and not held.allotment.lacking:
            self._taken[key] = held
            return held.allotment
        self._let_go(self._taken.pop(key, None))
        unknown = any(is_gpu(name) and name not in self._resources for name in resources)
        shares = None if unknown else self._devices.take(resources)
        if shares is None:
            return self._keep(key, _Taken({}, self._nothing(resources)))
        cpus = self._cores.take(_whole(resources.get("cpu", 0.0)))
        return self._keep(key, _Taken(resources, self._allotment(resources, shares, cpus), shares))

    def restore(
        self,
        key: Key,
        resources: Mapping[str, float],
        gpus: Sequence[str],
        cpus: Sequence[int] = (),
    ) -> Allotment:
        """For an attempt that runs already, with the GPUs (UUIDs) and cores it was given."""
        shares = self._devices.restore(resources, gpus)
        cores = self._cores.restore(cpus)
        allotment = self._allotment(resources, shares, cores)
        return self._keep(key, _Taken(resources, allotment, shares))

    def give_back(self, key: Key) -> None:
        """Idempotent."""
        if taken := self._taken.pop(key, None):
            self._let_go(taken)
            self._tell()
            self.given_back.set()

    def _let_go(self, taken: _Taken | None) -> None:
        if taken is not None:
            self._devices.give_back(taken.shares)
            self._cores.give_back(taken.allotment.cpus)

    def _allotment(
        self, resources: Mapping[str, float], shares: Sequence[Share], cpus: tuple[int, ...]
    ) -> Allotment:
        asked = resources.get("cpu")
        threads = max(1, math.floor(asked)) if asked else None
        gpus = tuple(gpu for gpu, _ in shares)
        return Allotment(gpus, cpus, threads, self._hides_gpus)

    def _nothing(self, resources: Mapping[str, float]) -> Allotment:
        free = self.free_resources()
        wanted = {name: amount for name, amount in resources.items() if is_gpu(name)}
        asks = " and ".join(f"{amount:g} {name}" for name, amount in wanted.items())
        has = " and ".join(f"{free.get(name, 0.0):g} {name}" for name in wanted)
        lacking = f"It asks for {asks}, and of that this worker has {has} free."
        return Allotment(hides_gpus=self._hides_gpus, lacking=lacking)

    def _keep(self, key: Key, taken: _Taken) -> Allotment:
        self._taken[key] = taken
        self._tell()
        return taken.allotment

    def _tell(self) -> None:
        for event, holds in ((self.available, self.free > 0), (self.busy, bool(self._taken))):
            if holds:
                event.set()
            else:
                event.clear()


def _whole(amount: float) -> int:
    """0 for a part of a core, which is no core of its own."""
    return int(amount) if amount == int(amount) else 0
