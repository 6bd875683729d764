"""Requirements of one job, as a script states them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from xmcloud.xm.resources import (
    AcceleratorType,
    Architecture,
    GpuType,
    InvalidTpuTopologyError,
    ResourceQuantity,
    ResourceType,
    ServiceTier,
    Topology,
    architecture_of,
)

_Amount: TypeAlias = int | float | Topology


class JobRequirements:
    """Resources, place and copies of a job; immutable.

    Names are case-insensitive. Memory and disk are in bytes, `cpu` in vCPUs. An accelerator takes
    a count or a topology; `'4x2'` of a GPU means two replicas of four.
    Raises KeyError for an unknown name, ValueError for a quantity or combination that cannot be,
    InvalidTpuTopologyError for a count of accelerators that cannot be.
    """

    def __init__(
        self,
        resources: Mapping[ResourceType, ResourceQuantity]
        | Mapping[str, ResourceQuantity] = MappingProxyType({}),
        *,
        location: str | None = None,
        replicas: int | None = None,
        service_tier: ServiceTier | None = None,
        architecture: Architecture | None = None,
        **kw_resources: ResourceQuantity,
    ) -> None:
        self._amounts: dict[ResourceType, _Amount] = {}
        for name, quantity in (*resources.items(), *kw_resources.items()):
            self._add(name, quantity)
        self.location = location
        self._replicas = _checked_replicas(replicas, self._hosts)
        self._service_tier = service_tier
        self._architecture = _checked_architecture(architecture, self.accelerator)

    def _add(self, name: ResourceType | str, quantity: ResourceQuantity) -> None:
        resource = name if isinstance(name, ResourceType) else ResourceType[name]
        if resource in self._amounts:
            raise ValueError(f"{resource} is given twice, the second time as {name!s}; keep one")
        other = next((known for known in self._amounts if known in AcceleratorType), None)
        if other and resource in AcceleratorType:
            raise ValueError(f"a job has one kind of accelerator, not {other} and {resource}")
        self._amounts[resource] = _parse_amount(str(name), resource, quantity)

    @property
    def task_requirements(self) -> Mapping[ResourceType, int | float]:
        """Every resource asked for; accelerators as the number of chips over all replicas."""
        return MappingProxyType(
            {
                resource: amount.chip_count if isinstance(amount, Topology) else amount
                for resource, amount in self._amounts.items()
            }
        )

    @property
    def accelerator(self) -> ResourceType | None:
        """The kind of accelerator, None if there is none or its count is 0."""
        return next(
            (kind for kind, size in self._amounts.items() if isinstance(size, Topology)), None
        )

    @property
    def topology(self) -> Topology | None:
        return next((size for size in self._amounts.values() if isinstance(size, Topology)), None)

    @property
    def accelerator_count(self) -> int:
        """Accelerators that each replica gets."""
        topology = self.topology
        return topology.chip_count // (self._hosts or 1) if topology else 0

    @property
    def replicas(self) -> int:
        return self._replicas or self._hosts or 1

    @property
    def service_tier(self) -> ServiceTier:
        return self._service_tier or ServiceTier.PROD

    @property
    def architecture(self) -> Architecture | None:
        """The one asked for, else the only one its accelerator comes with."""
        inferred = architecture_of(self.accelerator) if self.accelerator else None
        return self._architecture or inferred

    @property
    def _hosts(self) -> int | None:
        """Machines that a topology of GPUs spans: all its sizes but the first, multiplied."""
        kind, topology = self.accelerator, self.topology
        if topology is None or kind not in GpuType or kind is ResourceType.LOCAL_GPU:
            return None
        return math.prod(topology.dimensions[1:]) if len(topology.dimensions) > 1 else None

    def merge(self, other: "JobRequirements") -> "JobRequirements":
        """A copy in which whatever `other` states overrides what this one states."""
        amounts = dict(self._amounts)
        if any(resource in AcceleratorType for resource in other._amounts):
            amounts = {kind: size for kind, size in amounts.items() if kind not in AcceleratorType}
        inherited = None if other._hosts else self._replicas
        return JobRequirements(
            amounts | other._amounts,
            location=self.location if other.location is None else other.location,
            replicas=inherited if other._replicas is None else other._replicas,
            service_tier=other._service_tier or self._service_tier,
            architecture=other._architecture or self._architecture,
        )

    def _stated(self) -> dict[str, object]:
        stated = {
            **{resource.name.lower(): amount for resource, amount in self._amounts.items()},
            "location": self.location,
            "replicas": self._replicas,
            "service_tier": self._service_tier,
            "architecture": self._architecture,
        }
        return {name: value for name, value in stated.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobRequirements) and self._stated() == other._stated()

    def __hash__(self) -> int:
        return hash(frozenset(self._stated().items()))

    def __repr__(self) -> str:
        stated = ", ".join(f"{name}={value!r}" for name, value in self._stated().items())
        return f"xm.JobRequirements({stated})"


def _parse_amount(name: str, resource: ResourceType, quantity: Any) -> _Amount:
    if isinstance(quantity, str):
        quantity = _parse_text(name, quantity)
    if isinstance(quantity, Topology):
        if resource not in AcceleratorType:
            raise ValueError(f"{name} is no accelerator, so {quantity.name!r} means nothing for it")
        return quantity
    if not isinstance(quantity, int | float) or not math.isfinite(quantity):
        raise ValueError(f"{name} is {quantity!r}; give a number")
    if resource in AcceleratorType:
        return _chips(name, quantity)
    if quantity < 0:
        raise ValueError(f"{name} is {quantity!r}; give a number that is not negative")
    return quantity


def _parse_text(name: str, text: str) -> int | float | Topology:
    if Topology.PATTERN.fullmatch(text) and not text.isdigit():
        return Topology(text)
    try:
        number = float(text)
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}, which is no number; with a unit, write for example "
            f"{name}=4 * xm.GiB"
        ) from None
    return int(number) if number.is_integer() else number


def _chips(name: str, count: int | float) -> Topology | int:
    if count < 0 or count != int(count):
        raise InvalidTpuTopologyError(
            f"{name} is {count!r}; a count of accelerators is a whole number that is not negative"
        )
    return Topology(str(int(count))) if count else 0


def _checked_replicas(replicas: Any, hosts: int | None) -> int | None:
    if replicas is None:
        return None
    if not isinstance(replicas, int) or replicas < 1:
        raise ValueError(f"replicas is {replicas!r}; give a whole number from 1")
    if hosts and replicas != hosts:
        raise ValueError(
            f"replicas is {replicas}, but the topology spans {hosts} machines; leave replicas out"
        )
    return replicas


def _checked_architecture(
    architecture: Architecture | None, accelerator: ResourceType | None
) -> Architecture | None:
    needed = architecture_of(accelerator) if accelerator else None
    if architecture and needed and architecture is not needed:
        raise ValueError(
            f"architecture is {architecture.name}, but {accelerator} comes only with {needed.name}"
        )
    return architecture
