"""What this machine has, as far as its containers and control groups let a worker use it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from xmcloud.worker.cores import Cores, own_cores
from xmcloud.worker.gpus import Driver, Gpu, ask_driver, chosen
from xmcloud.worker.settings import WorkerSettings

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Machine:
    """What one worker has of a machine for its jobs."""

    gpus: tuple[Gpu, ...] = ()
    driver: Driver = field(default_factory=Driver)
    cores: Cores = field(default_factory=Cores)

    @classmethod
    def for_worker(cls, settings: WorkerSettings) -> "Machine":
        """Asks the driver. Raises `InvalidSettings`."""
        driver = ask_driver()
        return cls(chosen(driver, settings.gpus, os.environ), driver, Cores(own_cores()))

    def resources(self) -> dict[str, float]:
        """In the units of a job's requirements: cores, bytes, and GPUs under all their names."""
        found = {"cpu": cpus(), "memory": memory()}
        for gpu in self.gpus:
            for kind in gpu.kinds:
                found[kind] = found.get(kind, 0.0) + 1
        return found


def cpus(root: Path = _ROOT) -> float:
    """Cores that the worker may use at once, a part of one too."""
    available = float(len(own_cores()) or os.cpu_count() or 1)
    return min([available, *_cpu_quotas(root)])


def memory(root: Path = _ROOT) -> float:
    """Bytes."""
    limits = (_number(file) for file in _files(root, "memory", "memory.max", _V1_MEMORY))
    return float(min([psutil.virtual_memory().total, *(each for each in limits if each)]))


def oom_kills(root: Path = _ROOT) -> int:
    """How often the kernel ended a process for want of memory.

    Of the worker's control group, in which its jobs are too; where there is none, of the machine.
    """
    events = _files(root, "memory", "memory.events", "memory.oom_control")
    for line in _text(next(events, root / "proc/vmstat")).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdecimal():
            return int(value)
    return 0


_V1_MEMORY = "memory.limit_in_bytes"


def _cpu_quotas(root: Path) -> Iterator[float]:
    for file in _files(root, "cpu", "cpu.max", "cpu.cfs_quota_us"):
        if file.name == "cpu.max":
            quota, _, period = _text(file).partition(" ")
        else:
            quota, period = _text(file), _text(file.with_name("cpu.cfs_period_us"))
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)


def _files(root: Path, controller: str, second: str, first: str) -> Iterator[Path]:
    """Of the worker's control group and those around it, in versions 2 and 1.

    In a container the own group can be the one that is mounted, whatever it is called outside.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, name = root / "sys/fs/cgroup", second
        elif controller in controllers.split(","):
            base, name = root / "sys/fs/cgroup" / controller, first
        else:
            continue
        own = base / path.lstrip("/")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(base):
                break
            if (folder / name).is_file():
                yield folder / name


def _number(file: Path) -> int:
    """0 for no limit."""
    text = _text(file)
    return int(text) if text.isdecimal() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
