"""What a launch script can do with an experiment and its units; clients implement it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from xmcloud.xm.executables import Executable
from xmcloud.xm.jobs import JobType
from xmcloud.xm.metadata import MetadataContext
from xmcloud.xm.packageables import Packageable
from xmcloud.xm.roles import AuxiliaryUnitJob, ExperimentUnitRole, WorkUnitRole
from xmcloud.xm.status import ExperimentUnitStatus


@dataclass(frozen=True, kw_only=True)
class LaunchedJob:
    """A job that was sent; `address` and `logs` are URLs where the platform gives any."""

    name: str
    address: str | None = None
    logs: str | None = None


class ExperimentUnit(ABC):
    """Jobs of an experiment that are started, waited for and stopped as one."""

    @property
    @abstractmethod
    def experiment_id(self) -> str: ...

    @property
    @abstractmethod
    def identity(self) -> str:
        """The identity it was added under; empty if none."""

    @property
    @abstractmethod
    def experiment_unit_name(self) -> str:
        """`<experiment>_<unit>`."""

    @property
    @abstractmethod
    def context(self) -> MetadataContext: ...

    @property
    @abstractmethod
    def launched_jobs(self) -> Sequence[LaunchedJob]: ...

    @abstractmethod
    def add(
        self, job: JobType, args: Mapping[str, Any] | None = None, *, identity: str = ""
    ) -> Awaitable[None]:
        """Add a job to this unit, as a generator does."""

    @abstractmethod
    def wait_until_complete(self) -> Coroutine[Any, Any, Self]:
        """Wait until every job ended; raises ExperimentUnitError unless all completed."""

    def wait_for_completion(self) -> Coroutine[Any, Any, Self]:
        """Another name of `wait_until_complete`."""
        return self.wait_until_complete()

    @abstractmethod
    def stop(
        self,
        *,
        mark_as_failed: bool = False,
        mark_as_completed: bool = False,
        message: str | None = None,
    ) -> None:
        """Ask every job to end; the unit counts as stopped unless marked otherwise."""

    @abstractmethod
    def get_status(self) -> ExperimentUnitStatus: ...

    def get_full_job_name(self, job_name: str) -> str:
        """`<experiment>_<unit>_<job>`, by which jobs of the unit find each other."""
        return f"{self.experiment_unit_name}_{job_name}"


class WorkUnit(ExperimentUnit):
    """A trial of the experiment."""

    @property
    @abstractmethod
    def work_unit_id(self) -> int:
        """Counts from 1 within the experiment."""

    def __str__(self) -> str:
        return f"WorkUnit(experiment_id={self.experiment_id}, work_unit_id={self.work_unit_id})"


class AuxiliaryUnit(ExperimentUnit):
    """A helper of the experiment."""

    @property
    @abstractmethod
    def auxiliary_unit_id(self) -> int:
        """Counts from 1 within the experiment."""


class Experiment(ABC):
    """Units under one title, with what they were made of."""

    @property
    @abstractmethod
    def experiment_id(self) -> str: ...

    @property
    @abstractmethod
    def context(self) -> MetadataContext: ...

    @property
    @abstractmethod
    def work_units(self) -> Mapping[int, WorkUnit]: ...

    @property
    def work_unit_count(self) -> int:
        return len(self.work_units)

    @abstractmethod
    def package(self, packageables: Sequence[Packageable] = ()) -> Sequence[Executable]:
        """Package in parallel, together with all that `package_async` got; keeps the order."""

    @abstractmethod
    def package_async(self, packageable: Packageable) -> Awaitable[Executable]:
        """Package with the next `package`."""

    @abstractmethod
    def add(
        self,
        job: JobType | AuxiliaryUnitJob,
        args: Mapping[str, Any] | None = None,
        *,
        role: ExperimentUnitRole = WorkUnitRole(),  # noqa: B008
        identity: str = "",
    ) -> Awaitable[ExperimentUnit]:
        """Add a unit; with an identity, return the one added under it before, if there is one."""
