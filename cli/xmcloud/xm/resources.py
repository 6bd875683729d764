"""What a job can ask for: resource types, architectures and tiers."""

from enum import Enum, EnumMeta, nonmember
from typing import TypeVar

_MemberT = TypeVar("_MemberT")


class UnknownResourceError(KeyError, AttributeError):
    """A resource or tier whose name is not known; the message names the nearest one that is."""

    def __str__(self) -> str:
        return str(self.args[0])


class _AnyCase(EnumMeta):
    """Looks members up whatever the case of the name."""

    def __getitem__(cls: type[_MemberT], name: str) -> _MemberT:
        members: dict[str, _MemberT] = cls.__members__  # type: ignore[attr-defined]
        member = members.get(name.upper())
        if member is None:
            noun: str = cls.noun  # type: ignore[attr-defined]
            raise UnknownResourceError(_unknown(noun, name, list(members)))
        return member


def _unknown(noun: str, name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    [nearest] = get_close_matches(name.upper(), known, n=1, cutoff=0)
    if nearest in _LOWER_CASE:
        nearest = nearest.lower()
    return f"unknown {noun} {name!r}; the nearest known name is {nearest!r}"


class Architecture(Enum):
    HASWELL = "haswell"
    ARM = "arm"

    def __repr__(self) -> str:
        return f"xm.{self}"


class ServiceTier(Enum, metaclass=_AnyCase):
    """How readily the platform may take a job's machine away."""

    noun = nonmember("service tier")

    PROD = "prod"
    BATCH = "batch"
    FREEBIE = "freebie"

    def __repr__(self) -> str:
        return f"xm.{self}"


class ResourceType(Enum, metaclass=_AnyCase):
    """Anything a job can require; memory and disk are in bytes, `CPU` in vCPUs, others count."""

    noun = nonmember("resource")

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
    H100_MEGA = "h100_mega"
    H200 = "h200"
    B200 = "b200"
    B300 = "b300"
    GB200 = "gb200"
    GB300 = "gb300"
    VR200 = "vr200"
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
_ARM_ONLY = {ResourceType.GB200, ResourceType.GB300, ResourceType.VR200}


class _Family(frozenset[ResourceType]):
    """Some of the resource types, which can be named as attributes or items."""

    def __getattr__(self, name: str) -> ResourceType:
        return self[name]

    def __getitem__(self, name: str) -> ResourceType:
        resource = ResourceType[name]
        if resource not in self:
            known = [member.name for member in self]
            raise UnknownResourceError(_unknown("resource", name, known))
        return resource


TpuType = _Family(member for member in ResourceType if member.name.startswith("TPU_"))
AcceleratorType = _Family(
    set(ResourceType) - {ResourceType.CPU, ResourceType.MEMORY, ResourceType.EPHEMERAL_STORAGE}
)
# A `local_gpu` is whatever the machine has, so it is of no type.
GpuType = _Family(AcceleratorType - TpuType - {ResourceType.LOCAL_GPU})


def architecture_of(accelerator: ResourceType) -> Architecture | None:
    """The only architecture the accelerator comes with; None if it comes with any."""
    if accelerator is ResourceType.LOCAL_GPU:
        return None
    return Architecture.ARM if accelerator in _ARM_ONLY else Architecture.HASWELL
