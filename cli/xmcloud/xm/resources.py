"""What a job can ask for: resource types, units, architectures, tiers and topologies."""

import re
from dataclasses import dataclass
from enum import Enum, EnumMeta
from math import prod
from typing import TypeAlias, TypeVar

vCPU = 1.0  # noqa: N816

KB, MB, GB, TB, PB = (1000**power for power in range(1, 6))
KiB, MiB, GiB, TiB, PiB = (1024**power for power in range(1, 6))

_MemberT = TypeVar("_MemberT")


class UnknownResourceError(KeyError):
    """A resource name that is not known; the message names the nearest one that is."""

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidTpuTopologyError(ValueError):
    """An accelerator count or topology that no machine can have."""


class Architecture(Enum):
    HASWELL = "haswell"
    ARM = "arm"


class ServiceTier(Enum):
    """How readily the platform may take a job's machine away."""

    PROD = "prod"
    BATCH = "batch"
    FREEBIE = "freebie"


class _AnyCase(EnumMeta):
    """Looks members up whatever the case of the name."""

    def __getitem__(cls: type[_MemberT], name: str) -> _MemberT:
        members: dict[str, _MemberT] = cls.__members__  # type: ignore[attr-defined]
        member = members.get(name.upper())
        if member is None:
            raise UnknownResourceError(_unknown(name, list(members)))
        return member


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    [nearest] = get_close_matches(name.upper(), known, n=1, cutoff=0)
    if nearest in _LOWER_CASE:
        nearest = nearest.lower()
    return f"unknown resource {name!r}; the nearest known name is {nearest!r}"


class ResourceType(Enum, metaclass=_AnyCase):
    """Anything a job can require; memory and disk are in bytes, `CPU` in vCPUs, others count."""

    CPU = "cpu"
    MEMORY = "memory"
    RAM = MEMORY
    EPHEMERAL_STORAGE = "ephemeral_storage"
    DISK = EPHEMERAL_STORAGE

    LOCAL_GPU = "local_gpu"
    P4 = "p4"
    T4 = "t4"
    P100 = "p100"
    V100 = "v100"
    A100 = "a100"
    A100_80GIB = "a100_80gib"
    L4_24TH = "l4_24th"
    L4 = L4_24TH
    H100 = "h100"
    H200 = "h200"
    B200 = "b200"
    B300 = "b300"
    GB200 = "gb200"
    GB300 = "gb300"
    B40_48TH = "b40_48th"

    TPU_V2 = "tpu_v2"
    V2 = TPU_V2
    TPU_V3 = "tpu_v3"
    V3 = TPU_V3
    TPU_V4 = "tpu_v4"
    V4 = TPU_V4
    TPU_V5E = "tpu_v5e"
    V5E = TPU_V5E
    TPU_V5P = "tpu_v5p"
    V5P = TPU_V5P
    TPU_V6E = "tpu_v6e"
    V6E = TPU_V6E
    TPU_V7X = "tpu_v7x"
    V7X = TPU_V7X

    def __str__(self) -> str:
        return self.name


_LOWER_CASE = {"CPU", "MEMORY", "RAM", "EPHEMERAL_STORAGE", "DISK", "LOCAL_GPU"}
_ARM_ONLY = {ResourceType.GB200, ResourceType.GB300}


class _Family(frozenset[ResourceType]):
    """Some of the resource types, which can be named as attributes or items."""

    def __getattr__(self, name: str) -> ResourceType:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> ResourceType:
        resource = ResourceType[name]
        if resource not in self:
            raise UnknownResourceError(_unknown(name, [member.name for member in self]))
        return resource


TpuType = _Family(member for member in ResourceType if member.name.startswith("TPU_"))
AcceleratorType = _Family(
    set(ResourceType) - {ResourceType.CPU, ResourceType.MEMORY, ResourceType.EPHEMERAL_STORAGE}
)
GpuType = _Family(AcceleratorType - TpuType)


def architecture_of(accelerator: ResourceType) -> Architecture | None:
    """The only architecture the accelerator comes with; None if it comes with any."""
    if accelerator is ResourceType.LOCAL_GPU:
        return None
    return Architecture.ARM if accelerator in _ARM_ONLY else Architecture.HASWELL


@dataclass(frozen=True, repr=False)
class Topology:
    """Accelerator chips in a grid, such as `4x2`; raises InvalidTpuTopologyError for no grid."""

    name: str

    PATTERN = re.compile(r"([1-9][0-9]*(?:x[1-9][0-9]*)*)(?:_(?:un)?twisted)?", re.ASCII)

    def __post_init__(self) -> None:
        if not self.PATTERN.fullmatch(self.name):
            raise InvalidTpuTopologyError(
                f"accelerator topology {self.name!r} is no grid of chips; write a positive whole "
                "number such as 8, or sizes such as '4x2'"
            )

    @property
    def dimensions(self) -> list[int]:
        return [int(size) for size in self.name.partition("_")[0].split("x")]

    @property
    def chip_count(self) -> int:
        return prod(self.dimensions)

    def __repr__(self) -> str:
        return f"xm.Topology({self.name!r})"


ResourceQuantity: TypeAlias = int | float | str | Topology
