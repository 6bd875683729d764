"""The machines of Vertex AI and what comes with them, as its documentation lists them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """A machine with `count` accelerators; of a TPU, the shape in which they hang together."""

    machine_type: str
    cpus: int
    memory_gib: float
    count: int = 0
    topology: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """What comes with an accelerator: `accelerator` is '' where the machine type tells it."""

    accelerator: str
    sizes: tuple[Size, ...]


def _n1(kind: str, gib_per_cpu: float, *cpus: int) -> tuple[Size, ...]:
    return tuple(Size(f"n1-{kind}-{count}", count, count * gib_per_cpu) for count in cpus)


N1 = (
    *_n1("standard", 3.75, 4, 8, 16, 32, 64, 96),
    *_n1("highmem", 6.5, 2, 4, 8, 16, 32, 64, 96),
    *_n1("highcpu", 0.9, 16, 32, 64, 96),
)


def _attached(accelerator: str, largest: dict[int, tuple[int, float]]) -> Family:
    """A GPU of n1 machines: by their number, the most vCPUs and memory that they carry."""
    sizes = (
        Size(size.machine_type, size.cpus, size.memory_gib, count)
        for count, (cpus, memory) in largest.items()
        for size in N1
        if size.cpus <= cpus and size.memory_gib <= memory
    )
    return Family(accelerator, tuple(sizes))


def _scaled(accelerator: str, machine: str, cpus: int, gib: float, *counts: int) -> Family:
    """Machines of one kind whose size grows with the number of their GPUs."""
    sizes = (Size(f"{machine}-{n}g", cpus * n, gib * n, n) for n in counts)
    return Family(accelerator, tuple(sizes))


def _standard(accelerator: str, machine: str, gib_per_cpu: float, cpus: dict[int, int]) -> Family:
    """Machines named by their vCPUs, with the number of GPUs of each."""
    sizes = (Size(f"{machine}-{n}", n, n * gib_per_cpu, count) for n, count in cpus.items())
    return Family(accelerator, tuple(sizes))


def sides(topology: str) -> list[int]:
    """Those longer than one chip, in ascending order, as the service names shapes."""
    return sorted(side for side in map(int, topology.split("x")) if side > 1)


def _slices(single: Sequence[Size], host: Size, *topologies: str) -> Family:
    """TPUs: machines on their own, and slices of several hosts of four chips."""
    several = (
        Size(host.machine_type, host.cpus, host.memory_gib, math.prod(sides(topology)), topology)
        for topology in topologies
    )
    return Family("", (*single, *several))


# By the table of GPUs that each n1 machine takes: vCPUs and GiB, the latter mostly unlimited.
_ALL = (96, 1e6)
_WIDE = ("4x4", "4x8", "8x8", "8x16", "16x16")
_V5E_HOST = Size("ct5lp-hightpu-4t", 112, 192, 4, "2x2")
_V6E_HOST = Size("ct6e-standard-4t", 180, 720, 4, "2x2")
_V7X_HOST = Size("tpu7x-standard-4t", 224, 960, 4, "2x2x1")

_MEGA = Size("a2-megagpu-16g", 96, 1360, 16)
_A100 = _scaled("NVIDIA_TESLA_A100", "a2-highgpu", 12, 85, 1, 2, 4, 8)
FAMILIES: dict[str, Family] = {
    "p4": _attached("NVIDIA_TESLA_P4", {1: (16, 1e6), 2: (32, 1e6), 4: _ALL}),
    "t4": _attached("NVIDIA_TESLA_T4", {1: (16, 1e6), 2: (32, 1e6), 4: _ALL}),
    "p100": _attached("NVIDIA_TESLA_P100", {1: (16, 1e6), 2: (32, 1e6), 4: (64, 208)}),
    "v100": _attached("NVIDIA_TESLA_V100", {1: (8, 1e6), 2: (16, 1e6), 4: (32, 1e6), 8: _ALL}),
    "a100": Family(_A100.accelerator, (*_A100.sizes, _MEGA)),
    "a100-80gib": _scaled("NVIDIA_A100_80GB", "a2-ultragpu", 12, 170, 1, 2, 4, 8),
    "l4-24th": _standard(
        "NVIDIA_L4", "g2-standard", 4, {4: 1, 8: 1, 12: 1, 16: 1, 32: 1, 24: 2, 48: 4, 96: 8}
    ),
    "h100": _scaled("NVIDIA_H100_80GB", "a3-highgpu", 26, 234, 1, 2, 4, 8),
    "h100-mega": _scaled("NVIDIA_H100_MEGA_80GB", "a3-megagpu", 26, 234, 8),
    "h200": _scaled("NVIDIA_H200_141GB", "a3-ultragpu", 28, 369, 8),
    "b200": _scaled("NVIDIA_B200", "a4-highgpu", 28, 496, 8),
    "gb200": _scaled("NVIDIA_GB200", "a4x-highgpu", 35, 221, 4),
    "tpu-v2": Family("TPU_V2", (Size("cloud-tpu", 96, 334, 8),)),
    "tpu-v3": Family("TPU_V3", (Size("cloud-tpu", 96, 334, 8),)),
    "tpu-v5e": _slices(
        (
            Size("ct5lp-hightpu-1t", 24, 48, 1, "1x1"),
            _V5E_HOST,
            Size("ct5lp-hightpu-8t", 224, 384, 8, "2x4"),
        ),
        _V5E_HOST,
        *_WIDE,
    ),
    "tpu-v6e": _slices(
        (
            Size("ct6e-standard-1t", 44, 48, 1, "1x1"),
            _V6E_HOST,
            Size("ct6e-standard-8t", 180, 1440, 8, "2x4"),
        ),
        _V6E_HOST,
        *_WIDE,
    ),
    "tpu-v7x": _slices(
        (_V7X_HOST,),
        _V7X_HOST,
        *("2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16"),
    ),
}
FAMILIES["l4"] = FAMILIES["l4-24th"]

MACHINE_TYPES = frozenset(
    size.machine_type
    for sizes in (N1, *(family.sizes for family in FAMILIES.values()))
    for size in sizes
)
"""Every machine type that a job may get."""
