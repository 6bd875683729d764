"""The accelerators that GKE has, and what a pod says to get them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from xmcloud.core.errors import InvalidInput

_GPU_TYPE = "cloud.google.com/gke-accelerator"
_TPU_TYPE = "cloud.google.com/gke-tpu-accelerator"
_TPU_TOPOLOGY = "cloud.google.com/gke-tpu-topology"

GPUS: Mapping[str, str] = {
    "p4": "nvidia-tesla-p4",
    "t4": "nvidia-tesla-t4",
    "p100": "nvidia-tesla-p100",
    "v100": "nvidia-tesla-v100",
    "a100": "nvidia-tesla-a100",
    "a100-80gib": "nvidia-a100-80gb",
    "l4": "nvidia-l4",
    "l4-24th": "nvidia-l4",
    "h100": "nvidia-h100-80gb",
    "h100-mega": "nvidia-h100-mega-80gb",
    "h200": "nvidia-h200-141gb",
    "b200": "nvidia-b200",
    "gb200": "nvidia-gb200",
}
ANY_GPU = "gpu"

_FLAT = {
    1: "1x1",
    4: "2x2",
    8: "2x4",
    16: "4x4",
    32: "4x8",
    64: "8x8",
    128: "8x16",
    256: "16x16",
}
_CUBIC = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8"}


@dataclass(frozen=True, slots=True)
class _Tpu:
    """A TPU: its name, the usual topologies by chips, and how many chips one machine can have."""

    name: str
    topologies: Mapping[int, str]
    alone: int = 4


TPUS: Mapping[str, _Tpu] = {
    "tpu-v3": _Tpu("tpu-v3-slice", {k: v for k, v in _FLAT.items() if k >= 16}),
    "tpu-v4": _Tpu("tpu-v4-podslice", _CUBIC),
    "tpu-v5e": _Tpu("tpu-v5-lite-podslice", _FLAT, alone=8),
    "tpu-v5p": _Tpu("tpu-v5p-slice", _CUBIC),
    "tpu-v6e": _Tpu("tpu-v6e-slice", _FLAT, alone=8),
    "tpu-v7x": _Tpu("tpu7x", _CUBIC),
}
_CHIPS_OF_MANY = 4
"""Chips of each machine, when a slice has several machines."""

_PLAIN = ("cpu", "memory", "disk")


@dataclass(frozen=True, slots=True)
class Placement:
    """What each pod asks for and where it goes; `hosts` are the machines of one TPU slice."""

    limits: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    hosts: int = 1


def placement(resources: Mapping[str, float], topology: str) -> Placement:
    """Raises `InvalidInput` for what GKE does not have."""
    wanted = [name for name in resources if name not in _PLAIN]
    for name in wanted:
        if name not in GPUS and name not in TPUS and name != ANY_GPU:
            known = ", ".join([*_PLAIN, ANY_GPU, *GPUS, *TPUS])
            raise InvalidInput("resources", name, f"one that Kubernetes has here: {known}")
    if len(wanted) > 1:
        raise InvalidInput("resources", ", ".join(wanted), "one kind of accelerator")
    if not wanted:
        return Placement()
    [name] = wanted
    count = _whole(name, resources[name])
    if name in TPUS:
        return _tpu(name, count, topology)
    selector = {_GPU_TYPE: GPUS[name]} if name in GPUS else {}
    return Placement({"nvidia.com/gpu": str(count)}, selector)


def _tpu(name: str, chips: int, topology: str) -> Placement:
    tpu = TPUS[name]
    topology = topology or tpu.topologies.get(chips, "")
    if not topology:
        usual = ", ".join(str(count) for count in tpu.topologies)
        raise InvalidInput(f"resources.{name}", chips, f"one of {usual}, or come with a topology")
    if prod(int(side) for side in topology.split("x")) != chips:
        raise InvalidInput("topology", topology, f"one of {chips} chips")
    hosts = 1 if chips <= tpu.alone else -(-chips // _CHIPS_OF_MANY)
    return Placement(
        {"google.com/tpu": str(chips // hosts)},
        {_TPU_TYPE: tpu.name, _TPU_TOPOLOGY: topology},
        hosts,
    )


def _whole(name: str, count: float) -> int:
    if count != int(count):
        raise InvalidInput(f"resources.{name}", count, "a whole number")
    return int(count)
