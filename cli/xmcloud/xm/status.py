"""How a unit is doing, and the errors that say it will not complete."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmcloud.xm.units import ExperimentUnit


class UnitState(Enum):
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ExperimentUnitStatus:
    """The state of a unit as a whole; the message says why."""

    state: UnitState
    message: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it may still run; once false, the status does not change any more."""
        return self.state is UnitState.ACTIVE

    @property
    def is_completed(self) -> bool:
        return self.state is UnitState.COMPLETED

    @property
    def is_failed(self) -> bool:
        return self.state is UnitState.FAILED


class ExperimentUnitError(RuntimeError):
    """A unit that did not do what was asked of it."""

    def __init__(self, message: object, *, work_unit: "ExperimentUnit | None" = None) -> None:
        super().__init__(message)
        self.work_unit = work_unit


class ExperimentUnitFailedError(ExperimentUnitError):
    """A job of the unit failed."""


class ExperimentUnitNotCompletedError(ExperimentUnitError):
    """The unit was stopped before it completed."""


class NotFoundError(KeyError, ValueError):
    """No experiment or unit has that id."""

    def __str__(self) -> str:
        return str(self.args[0])


def completion_error(
    status: ExperimentUnitStatus, work_unit: "ExperimentUnit"
) -> ExperimentUnitError | None:
    """What waiting for a unit that ended this way raises; None if it completed or still runs."""
    name = work_unit.experiment_unit_name
    reason = f": {status.message}" if status.message else ""
    if status.is_failed:
        return ExperimentUnitFailedError(f"{name} failed{reason}", work_unit=work_unit)
    if status.state is UnitState.STOPPED:
        return ExperimentUnitNotCompletedError(f"{name} was stopped{reason}", work_unit=work_unit)
    return None
