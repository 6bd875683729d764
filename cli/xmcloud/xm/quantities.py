"""How much of a resource: units, grids of accelerator chips, and sums."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from xmcloud.xm.resources import ResourceType

vCPU = 1.0  # noqa: N816

KB, MB, GB, TB, PB = (1000**power for power in range(1, 6))
KiB, MiB, GiB, TiB, PiB = (1024**power for power in range(1, 6))


class InvalidTpuTopologyError(ValueError):
    """An accelerator count or topology that no machine can have."""


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


class ResourceDict(Mapping["ResourceType", int | float]):
    """Amounts by resource, which can be added and multiplied; immutable."""

    def __init__(
        self, amounts: Mapping["ResourceType", int | float] = MappingProxyType({})
    ) -> None:
        self._amounts = dict(amounts)

    def __getitem__(self, resource: "ResourceType") -> int | float:
        return self._amounts[resource]

    def __iter__(self) -> Iterator["ResourceType"]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __add__(self, other: "ResourceDict") -> "ResourceDict":
        resources = {**self._amounts, **other._amounts}
        return ResourceDict({kind: self.get(kind, 0) + other.get(kind, 0) for kind in resources})

    def __mul__(self, factor: int | float) -> "ResourceDict":
        return ResourceDict({kind: amount * factor for kind, amount in self.items()})

    __rmul__ = __mul__

    def __str__(self) -> str:
        return ", ".join(sorted(f"{kind}: {amount}" for kind, amount in self.items()))

    def __repr__(self) -> str:
        return f"ResourceDict({self._amounts!r})"
