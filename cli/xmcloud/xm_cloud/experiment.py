"""Experiments as launch scripts see them."""

import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, overload

from pydantic import ValidationError

from xmcloud import xm
from xmcloud.core import models
from xmcloud.core.errors import KeyReused, NotFound
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.names import job_id
from xmcloud.core.protocol import NewExperiment, NewUnits
from xmcloud.core.trace import Span
from xmcloud.xm_cloud import tracing
from xmcloud.xm_cloud.awaiting import Pending, in_thread, loop_runs_here
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.generators import run_generator
from xmcloud.xm_cloud.grouping import by_unit
from xmcloud.xm_cloud.identity import user
from xmcloud.xm_cloud.leaving import wait_for_units
from xmcloud.xm_cloud.metadata import Annotations
from xmcloud.xm_cloud.packaging import package as packaging
from xmcloud.xm_cloud.places import current_project
from xmcloud.xm_cloud.requests import first_fault, jobs_of
from xmcloud.xm_cloud.sender import Sender
from xmcloud.xm_cloud.shared import shared_client
from xmcloud.xm_cloud.units import AuxiliaryUnit, Unit, WorkUnit
from xmcloud.xm_cloud.watcher import Watcher


class Experiment(xm.Experiment):
    """An experiment that the control plane has; units are sent as they are added."""

    def __init__(
        self, client: Client, experiment: models.Experiment, span: Span | None = None
    ) -> None:
        """`span` ends when the experiment is left."""
        self.client = client
        self._span = span
        self._experiment = experiment
        self._annotations = Annotations(client, experiment)
        id = experiment.id
        self.sender = Sender(self._send, experiment.units)
        self.watcher = Watcher(lambda since, wait: client.changes(id, since, wait))
        self._before: dict[int, WorkUnit] | None = None if experiment.units else {}
        self._identities: dict[str, Pending[Unit]] = {}
        self._added: list[tuple[Unit, Pending[Unit]]] = []
        self._to_package: list[tuple[xm.Packageable, Future[xm.Executable]]] = []

    @property
    def experiment_id(self) -> str:
        return self._experiment.id

    @property
    def creator(self) -> str:
        return self._experiment.creator

    @property
    def context(self) -> xm.MetadataContext:
        return xm.MetadataContext(self.creator, self._annotations)

    @property
    def work_units(self) -> Mapping[int, WorkUnit]:
        """By number: those that were here before and those added since; waits for the latter."""
        if self._before is None:
            before = by_unit(self.client.jobs_of(self.experiment_id))
            self._before = {
                number: WorkUnit.of(self, jobs)
                for number, jobs in before.items()
                if jobs[0].auxiliary is None
            }
        added = [
            unit
            for unit, pending in self._added
            if isinstance(unit, WorkUnit) and pending.failure() is None
        ]
        return dict(sorted((self._before | {unit.work_unit_id: unit for unit in added}).items()))

    def _send(self, new: NewUnits, key: str) -> list[models.Job]:
        """A key comes back with another definition only for an identity, whose unit stays."""
        try:
            return self.client.add_units(self.experiment_id, new, key)
        except KeyReused:
            first = self.client.job(job_id(self.experiment_id, key, 0))
            return list(self.client.jobs_of(self.experiment_id, unit=first.unit))

    def package(self, packageables: Sequence[xm.Packageable] = ()) -> Sequence[xm.Executable]:
        """In parallel, together with what `package_async` got; raises the first error."""
        waiting, self._to_package = self._to_package, []
        futures = [future for _, future in waiting]
        try:
            packaged = packaging.package(
                self.client,
                [*packageables, *(packageable for packageable, _ in waiting)],
                dry=self.client.dry,
            )
        except BaseException as error:
            for future in futures:
                future.set_exception(error)
            raise
        for future, executable in zip(futures, packaged[len(packageables) :], strict=True):
            future.set_result(executable)
        return packaged[: len(packageables)]

    def package_async(self, packageable: xm.Packageable) -> Awaitable[xm.Executable]:
        future: Future[xm.Executable] = Future()
        self._to_package.append((packageable, future))
        return Pending(future)

    @overload
    def add(
        self,
        job: xm.AuxiliaryUnitJob,
        args: Mapping[str, Any] | None = None,
        *,
        identity: str = "",
    ) -> Pending[AuxiliaryUnit]: ...

    @overload
    def add(
        self,
        job: xm.JobType,
        args: Mapping[str, Any] | None = None,
        *,
        role: xm.WorkUnitRole = ...,
        identity: str = "",
    ) -> Pending[WorkUnit]: ...

    @overload
    def add(
        self,
        job: xm.JobType,
        args: Mapping[str, Any] | None = None,
        *,
        role: xm.AuxiliaryUnitRole,
        identity: str = "",
    ) -> Pending[AuxiliaryUnit]: ...

    @overload
    def add(
        self,
        job: xm.JobType | xm.AuxiliaryUnitJob,
        args: Mapping[str, Any] | None = None,
        *,
        role: xm.ExperimentUnitRole = ...,
        identity: str = "",
    ) -> Pending[Unit]: ...

    def add(
        self,
        job: xm.JobType | xm.AuxiliaryUnitJob,
        args: Mapping[str, Any] | None = None,
        *,
        role: xm.ExperimentUnitRole = xm.WorkUnitRole(),  # noqa: B008
        identity: str = "",
    ) -> Pending[Any]:
        """Sends a unit at once, or with the next request while one is under way.

        The units after a generator wait until it has added its jobs, so that numbers follow the
        order of adding. With an identity, the unit that anybody added under it before is returned.
        Raises `Unsupported` and `InvalidInput` for what cannot run.
        """
        if identity in self._identities:
            return self._identities[identity]
        if isinstance(job, xm.AuxiliaryUnitJob):
            role, job = job.role, job.job
        kind = AuxiliaryUnit if isinstance(role, xm.AuxiliaryUnitRole) else WorkUnit
        unit: Unit = kind(self, role, identity)
        if xm.is_job_generator(job):
            done = run_generator(job, unit, args or {})
        else:
            unit.send(jobs_of(job, args))
            done = unit.sent()
        pending = Pending(done)
        self._added.append((unit, pending))
        if identity:
            self._identities[identity] = pending
        return pending

    def leave(self, failed: bool) -> None:
        """Sends what is left and, unless the script failed, waits for builds and local jobs.

        Raises for the first job that could not be added or built or, on this machine, failed.
        """
        try:
            self._leave(failed)
        finally:
            if self._span is not None:
                self._span.end()

    def _leave(self, failed: bool) -> None:
        if failed:
            self.sender.flush()
            return
        failures = [(pending, pending.failure()) for _, pending in self._added]
        sent = [unit for (unit, _), (_, why) in zip(self._added, failures, strict=True) if not why]
        if not any(isinstance(unit, WorkUnit) for unit, _ in self._added):
            _warn_of_no_unit(self._experiment.title)
        try:
            if not self.client.dry:
                self._attend(sent)
        finally:
            for pending, failure in failures:
                if failure is not None and not pending.heard:
                    raise failure

    def _attend(self, sent: Sequence[Unit]) -> None:
        sys.stderr.write(f"xmcloud: experiment {self.experiment_id[:8]} has {_units(len(sent))}.\n")
        wait_for_units(self.client, self.watcher, sent)


def _units(count: int) -> str:
    return "1 new unit" if count == 1 else f"{count} new units"


def _warn_of_no_unit(title: str) -> None:
    warnings.warn(
        f"experiment {title!r} has no work unit; add jobs to it before it ends", stacklevel=4
    )


class ExperimentContext:
    """Makes the experiment on entering, in `with` and in `async with`."""

    def __init__(self, make: Callable[[], Experiment]) -> None:
        self._make = make
        self._made: list[Experiment] = []

    def __enter__(self) -> Experiment:
        if loop_runs_here():
            raise RuntimeError(
                "create_experiment was entered with `with` inside a running event loop; "
                "use `async with create_experiment(..)`"
            )
        self._made.append(self._make())
        return self._made[-1]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        experiment = self._made.pop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            _say_it_goes_on(experiment)
            return
        try:
            experiment.leave(failed=kind is not None)
        except KeyboardInterrupt:
            _say_it_goes_on(experiment)
            raise

    async def __aenter__(self) -> Experiment:
        experiment = await Pending(in_thread(self._make, "xmcloud-create"))
        self._made.append(experiment)
        return experiment

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        import asyncio

        experiment = self._made.pop()
        if kind is not None and issubclass(kind, KeyboardInterrupt | asyncio.CancelledError):
            _say_it_goes_on(experiment)
            return
        try:
            await Pending(in_thread(lambda: experiment.leave(kind is not None), "xmcloud-leave"))
        except asyncio.CancelledError:
            _say_it_goes_on(experiment)
            raise


def _say_it_goes_on(experiment: Experiment) -> None:
    id = experiment.experiment_id[:8]
    sys.stderr.write(
        f"xmcloud: no longer waiting; the jobs that were sent go on. See them: xmcloud show {id}. "
        f"Stop them: xmcloud stop {id}.\n"
    )


def create_experiment(
    experiment_title: str,
    *,
    creator: str = "",
    tags: Sequence[str] = (),
    notes: str = "",
    project: str = "",
) -> ExperimentContext:
    """An experiment to enter; the creator is whoever is signed in on this machine by default.

    It belongs to the project of XMCLOUD_PROJECT by default, else to that of `xmcloud login`, else
    to `default`. Raises `InvalidInput` for a title, tag or project that is none.
    """
    try:
        new = NewExperiment(
            title=experiment_title,
            project=project or current_project() or DEFAULT_PROJECT,
            creator=creator or user(),
            tags=tuple(tags),
            notes=notes,
        )
    except ValidationError as error:
        raise first_fault(error) from None

    def make() -> Experiment:
        client = shared_client()
        if client.dry:
            return Experiment(client, client.create_experiment(new))
        span = tracing.begin("launch")
        client = client.below(span.trace)
        return Experiment(client, client.create_experiment(new), span)

    return ExperimentContext(make)


def get_experiment(experiment_id: str) -> Experiment:
    """By its id or the beginning of it. Raises `xm.NotFoundError`."""
    client = shared_client()
    try:
        return Experiment(client, client.experiment(experiment_id).experiment)
    except NotFound as error:
        raise xm.NotFoundError(str(error)) from None


def list_experiments() -> list[Experiment]:
    """All of them, the newest first."""
    client = shared_client()
    found: list[Experiment] = []
    cursor: str | None = None
    while True:
        page = client.experiments(200, cursor)
        found += (Experiment(client, each.experiment) for each in page.experiments)
        cursor = page.cursor
        if cursor is None:
            return found
