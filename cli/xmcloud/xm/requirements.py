"""Requirements of one job, as a script states them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from xmcloud.xm.amounts import Amount, parse_count, parse_stated
from xmcloud.xm.quantities import ResourceDict, ResourceQuantity, Topology
from xmcloud.xm.resources import (
    AcceleratorType,
    Architecture,
    GpuType,
    ResourceType,
    ServiceTier,
    architecture_of,
)


class JobRequirements:
    """Resources, place and copies of a job; only its place and tier can be changed later.

    Names are case-insensitive. Memory and disk are in bytes, `cpu` in vCPUs. An accelerator takes
    a count or a topology; `'4x2'` of a GPU means two replicas of four, `'4x2*3'` three slices of
    that. Raises KeyError for an unknown name, ValueError for a quantity or combination that cannot
    be, InvalidTpuTopologyError for a count of accelerators that cannot be.
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
        num_slices: int | None = None,
        **kw_resources: ResourceQuantity,
    ) -> None:
        self.location = location
        self._service_tier = service_tier
        self._replicas = parse_count("replicas", replicas)
        self._slices = parse_count("num_slices", num_slices)
        self._amounts: dict[ResourceType, Amount] = {}
        for name, quantity in (*resources.items(), *kw_resources.items()):
            if str(name).lower() == "replicas":
                self._replicas = _stated_once("replicas", self._replicas, quantity)
            else:
                self._add(name, quantity)
        self._architecture = _checked_architecture(architecture, self.accelerator)
        self._check_slices()
        self._check_replicas()

    def _add(self, name: ResourceType | str, quantity: ResourceQuantity) -> None:
        resource = name if isinstance(name, ResourceType) else ResourceType[name]
        if resource in self._amounts:
            raise ValueError(f"{resource} is given twice, the second time as {name!s}; keep one")
        other = next((known for known in self._amounts if known in AcceleratorType), None)
        if other and resource in AcceleratorType:
            raise ValueError(f"a job has one kind of accelerator, not {other} and {resource}")
        stated = parse_stated(str(name), resource, quantity)
        self._amounts[resource] = stated.amount
        if stated.slices is not None and self._slices not in (None, stated.slices):
            raise ValueError(f"num_slices is {self._slices}, but {name} is {quantity!r}; keep one")
        self._slices = stated.slices or self._slices

    def _check_slices(self) -> None:
        if self.num_slices > 1 and self.accelerator and not self._spans_machines:
            raise ValueError(
                f"num_slices is {self._slices}, but {self.accelerator} does not come in slices; "
                "leave it out"
            )

    def _check_replicas(self) -> None:
        if self._replicas and self._machines and self._replicas != self._machines:
            raise ValueError(
                f"replicas is {self._replicas}, but the topology spans {self._machines} machines; "
                "leave replicas out"
            )

    @property
    def task_requirements(self) -> ResourceDict:
        """Every resource asked for; accelerators as the number of chips of a slice."""
        return ResourceDict(
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
        return self.topology.chip_count // self._machines_of_a_slice if self.topology else 0

    @property
    def replicas(self) -> int:
        return self._replicas or self._machines or 1

    @property
    def num_slices(self) -> int:
        """Equal groups of accelerators, each of the topology."""
        return self._slices or 1

    @property
    def service_tier(self) -> ServiceTier:
        return self._service_tier or ServiceTier.PROD

    @service_tier.setter
    def service_tier(self, service_tier: ServiceTier) -> None:
        self._service_tier = service_tier

    @property
    def architecture(self) -> Architecture | None:
        """The one asked for, else the only one its accelerator comes with."""
        inferred = architecture_of(self.accelerator) if self.accelerator else None
        return self._architecture or inferred

    @property
    def _spans_machines(self) -> bool:
        return self.accelerator in GpuType and self.accelerator is not ResourceType.B40_48TH

    @property
    def _machines_of_a_slice(self) -> int:
        """All sizes of a topology of GPUs but the first, multiplied."""
        if self.topology is None or not self._spans_machines:
            return 1
        return math.prod(self.topology.dimensions[1:])

    @property
    def _machines(self) -> int | None:
        """Replicas that the topology and the slices mean; None if they leave it open."""
        if self.topology is None or not self._spans_machines:
            return None
        several = len(self.topology.dimensions) > 1 or self.num_slices > 1
        return self._machines_of_a_slice * self.num_slices if several else None

    def merge(self, other: "JobRequirements") -> "JobRequirements":
        """A copy in which whatever `other` states overrides what this one states."""
        amounts = dict(self._amounts)
        if any(resource in AcceleratorType for resource in other._amounts):
            amounts = {kind: size for kind, size in amounts.items() if kind not in AcceleratorType}
        inherited = None if other._machines else self._replicas
        return JobRequirements(
            amounts | other._amounts,
            location=self.location if other.location is None else other.location,
            replicas=inherited if other._replicas is None else other._replicas,
            service_tier=other._service_tier or self._service_tier,
            architecture=other._architecture or self._architecture,
            num_slices=other._slices or self._slices,
        )

    def _stated(self) -> dict[str, object]:
        stated = {
            **{resource.name.lower(): amount for resource, amount in self._amounts.items()},
            "location": self.location,
            "architecture": self._architecture,
            "service_tier": self._service_tier,
            "replicas": self._replicas,
            "num_slices": self._slices,
        }
        return {name: value for name, value in stated.items() if value is not None}

    def _effective(self) -> tuple[object, ...]:
        copies = (self.replicas, self.num_slices)
        return (self._amounts, copies, self.location, self.service_tier, self.architecture)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobRequirements) and self._effective() == other._effective()

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts.items()))

    def __repr__(self) -> str:
        stated = ", ".join(f"{name}={value!r}" for name, value in self._stated().items())
        return f"xm.JobRequirements({stated})"


def _stated_once(name: str, known: int | None, value: Any) -> int | None:
    if known is not None:
        raise ValueError(f"{name} is given twice, as {known} and {value!r}; keep one")
    return parse_count(name, value)


def _checked_architecture(
    architecture: Architecture | None, accelerator: ResourceType | None
) -> Architecture | None:
    needed = architecture_of(accelerator) if accelerator else None
    if architecture and needed and architecture is not needed:
        raise ValueError(
            f"architecture is {architecture.name}, but {accelerator} comes only with {needed.name}"
        )
    return architecture
