"""What the machine uses: its processors, memory, disks, network and GPUs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

_VIRTUAL = ("lo", "veth", "docker", "br-", "virbr", "cni")
"""How interfaces begin whose traffic stays on the machine, or passes another one too."""


class GpuReader(Protocol):
    """The machine's GPUs by their number."""

    def sample(self) -> Sequence[tuple[float, float]]:
        """Of each: percent of the time that it was busy lately, and bytes of memory in use."""


class NoGpus:
    """`GpuReader` of a machine without."""

    def sample(self) -> Sequence[tuple[float, float]]:
        return ()


class Rates:
    """Changes per second of numbers that only grow."""

    def __init__(self) -> None:
        self._before: Mapping[str, float] = {}
        self._at = 0.0

    def since_last(self, now: float, totals: Mapping[str, float]) -> dict[str, float]:
        """Of those that were there the last time; one that fell was reset, and counts as none."""
        passed = now - self._at
        before, self._before, self._at = self._before, totals, now
        if passed <= 0:
            return {}
        known = totals.keys() & before.keys()
        return {name: max(0.0, totals[name] - before[name]) / passed for name in known}


class Meter:
    """Measures the machine. `folder` is on the disk whose room is told of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rates = Rates()

    def measure(self, now: float) -> dict[str, float]:
        """`now` in seconds, of any origin. Rates from the second time on."""
        memory = psutil.virtual_memory()
        rates = self._rates.since_last(now, _totals())
        busy, idle = rates.pop("busy", 0.0), rates.pop("idle", 0.0)
        if busy + idle > 0:
            rates["cpu-percent"] = 100 * busy / (busy + idle)
        return {
            "memory-bytes": float(memory.total - memory.available),
            "disk-used-percent": psutil.disk_usage(str(self._folder)).percent,
            **rates,
        }


def gpu_series(gpus: Sequence[tuple[float, float]], numbers: Sequence[int]) -> dict[str, float]:
    """Of those with these numbers that there are."""
    measured = {}
    for number in numbers:
        if number < len(gpus):
            percent, used = gpus[number]
            measured[f"gpu-{number}-percent"] = float(percent)
            measured[f"gpu-{number}-memory-bytes"] = float(used)
    return measured


def _totals() -> dict[str, float]:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # A guest's time is in the user's already.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    totals = {"busy": sum(times) - guests - idle, "idle": idle}
    if disk := psutil.disk_io_counters():
        totals["disk-read-bytes-per-second"] = disk.read_bytes
        totals["disk-write-bytes-per-second"] = disk.write_bytes
    interfaces = psutil.net_io_counters(pernic=True).items()
    network = [counted for name, counted in interfaces if not name.startswith(_VIRTUAL)]
    if network:
        totals["network-in-bytes-per-second"] = sum(each.bytes_recv for each in network)
        totals["network-out-bytes-per-second"] = sum(each.bytes_sent for each in network)
    return totals
