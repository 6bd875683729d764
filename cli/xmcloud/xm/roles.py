"""What part a unit plays in its experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from xmcloud.xm.jobs import JobType


class Importance(Enum):
    """Which units of a team go first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, kw_only=True)
class ExperimentUnitRole:
    importance: Importance = Importance.NORMAL


@dataclass(frozen=True, kw_only=True)
class WorkUnitRole(ExperimentUnitRole):
    """A trial of the experiment; its status counts for the experiment's."""

    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.tags, str):
            raise ValueError(f"tags is the bare string {self.tags!r}; write [{self.tags!r}]")
        object.__setattr__(self, "tags", tuple(self.tags))


@dataclass(frozen=True, kw_only=True)
class AuxiliaryUnitRole(ExperimentUnitRole):
    """A helper of the experiment, such as a TensorBoard; its status does not count.

    It is stopped `termination_delay_secs` seconds after the last work unit ended.
    """

    termination_delay_secs: int

    def __post_init__(self) -> None:
        if self.termination_delay_secs < 0:
            raise ValueError(
                f"termination_delay_secs is {self.termination_delay_secs}; give 0 or more seconds"
            )


class AuxiliaryUnitJob:
    """A job to add as an auxiliary unit."""

    def __init__(
        self,
        job: JobType,
        *,
        importance: Importance = Importance.NORMAL,
        termination_delay_secs: int,
    ) -> None:
        self.job = job
        self.role = AuxiliaryUnitRole(
            importance=importance, termination_delay_secs=termination_delay_secs
        )
