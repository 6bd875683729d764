"""Units of an experiment: a job, or a group of jobs that start and end together."""

from collections.abc import Awaitable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from xmcloud import xm
from xmcloud.core.errors import IllegalTransition, XmcloudError
from xmcloud.core.models import Job, Outcome
from xmcloud.core.names import derived_id
from xmcloud.core.protocol import Stop
from xmcloud.xm_cloud.awaiting import Pending, mapped
from xmcloud.xm_cloud.executors import Local
from xmcloud.xm_cloud.grouping import by_unit
from xmcloud.xm_cloud.requests import jobs_of, new_unit
from xmcloud.xm_cloud.sender import Place
from xmcloud.xm_cloud.statuses import status_of
from xmcloud.xm_cloud.unsupported import Unsupported

if TYPE_CHECKING:
    from xmcloud.xm_cloud.experiment import Experiment

U = TypeVar("U", bound="Unit")


class WorkUnitCompletedAwaitable(Coroutine[Any, Any, U], Generic[U]):
    """What `wait_until_complete` returns: its result is the unit, which it names before, too."""

    def __init__(self, work_unit: U) -> None:
        self.work_unit = work_unit
        self._begun: Coroutine[Any, Any, U] | None = None

    def __await__(self) -> Generator[Any, Any, U]:
        return self._waiting().__await__()

    def send(self, value: Any) -> Any:
        return self._waiting().send(value)

    def throw(self, *error: Any) -> Any:
        return self._waiting().throw(*error)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()

    def _waiting(self) -> Coroutine[Any, Any, U]:
        """Made when somebody waits: a coroutine that is never awaited warns."""
        if self._begun is None:
            self._begun = _completed(self.work_unit)
        return self._begun


async def _completed(unit: U) -> U:
    if error := unit.error_of(await unit.ended()):
        raise error
    return unit


class Unit(xm.ExperimentUnit):
    """A unit with what was added to it; a generator gets it before that."""

    def __init__(
        self, experiment: "Experiment", role: xm.ExperimentUnitRole, identity: str = ""
    ) -> None:
        self._experiment = experiment
        self._role = role
        self._identity = identity
        self._place: Place | None = None
        self._added: Sequence[xm.Job] = ()
        self.nested: list[Pending[None]] = []

    @classmethod
    def of(cls, experiment: "Experiment", jobs: Sequence[Job]) -> Self:
        """A unit that the control plane has already."""
        unit = cls(experiment, xm.WorkUnitRole())
        unit._place = Place()
        unit._place.jobs.set_result(jobs)
        return unit

    @property
    def experiment_id(self) -> str:
        return self._experiment.experiment_id

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def number(self) -> int:
        """Blocks while the unit is being sent; in a generator it is known before."""
        if self._place is not None and not self._added and not self._place.jobs.done():
            return self._experiment.sender.promise(self._place)
        return self.jobs()[0].unit

    @property
    def experiment_unit_name(self) -> str:
        return f"{self.experiment_id}_{self.number}"

    @property
    def context(self) -> xm.MetadataContext:
        return self._experiment.context

    @property
    def launched_jobs(self) -> Sequence[xm.LaunchedJob]:
        return [xm.LaunchedJob(name=job.full_name) for job in self.jobs()]

    @property
    def is_local(self) -> bool:
        """Whether it was added here and runs on this machine."""
        return isinstance(self._executor_of(self.jobs()[0]), Local)

    def local_executor(self, job: Job) -> Local:
        """Of a job of a unit that is local."""
        executor = self._executor_of(job)
        assert isinstance(executor, Local)
        return executor

    def _executor_of(self, job: Job) -> xm.Executor | None:
        """Replicas share that of the job they are made of."""
        executors = {added.name: added.executor for added in self._added}
        named = executors.get(job.name) or executors.get(job.name.rpartition("_")[0])
        return named or next(iter(executors.values()), None)

    @property
    def has_job(self) -> bool:
        return bool(self._added)

    def jobs(self) -> Sequence[Job]:
        """As the control plane made them; blocks until they were sent, raises what refused them."""
        return self._placed().jobs.result()

    def add(
        self, job: xm.JobType, args: Mapping[str, Any] | None = None, *, identity: str = ""
    ) -> Awaitable[None]:
        """Adds a job, a group, or what another generator adds.

        Raises `Unsupported` for a second one, `InvalidInput` for one that cannot be sent.
        """
        if identity:
            raise Unsupported(
                f"identity is {identity!r} for a job of a unit.", "Give it to experiment.add."
            )
        if xm.is_job_generator(job):
            from xmcloud.xm_cloud.generators import run_nested

            self.nested.append(Pending(run_nested(job, self, args or {})))
            return self.nested[-1]
        self.send(jobs_of(job, args))
        return Pending(mapped(self._placed().jobs, lambda _: None))

    def send(self, jobs: Sequence[xm.Job]) -> None:
        if self._added:
            raise Unsupported(
                "A second job was added to the unit.",
                "Add one xm.JobGroup that holds all of its jobs: they start together.",
            )
        unit = new_unit(jobs, self._role, self._experiment.client.url)
        self._added = jobs
        if self._place is None:
            self._place = self._experiment.sender.add(unit, self._key())
        else:
            self._place.key = self._key()
            self._experiment.sender.fill(self._place, unit)

    def sent(self) -> Future[Self]:
        """The unit itself, once the control plane has its jobs."""
        return mapped(self._placed().jobs, lambda _: self)

    def reserve(self) -> None:
        """Takes the next number, for jobs that a generator will add."""
        self._place = self._experiment.sender.reserve()

    def abandon(self) -> None:
        """Gives up the number if no job was added."""
        if self._place is not None and not self._added:
            self._experiment.sender.withdraw(self._place)

    def wait_until_complete(self) -> WorkUnitCompletedAwaitable[Self]:
        return WorkUnitCompletedAwaitable(self)

    wait_for_completion = wait_until_complete

    async def ended(self) -> Sequence[Job]:
        """Its jobs once all have ended. Raises `xm.ExperimentUnitError` if they were refused."""
        try:
            jobs = await Pending(self._placed().jobs)
        except XmcloudError as error:
            raise xm.ExperimentUnitError(f"not launched: {error}", work_unit=self) from error
        return [await Pending(self._experiment.watcher.ended(job.id)) for job in jobs]

    def ends(self) -> list[Future[Job]]:
        """Each of its jobs once it has ended; blocks while they are being sent."""
        return [self._experiment.watcher.ended(job.id) for job in self.jobs()]

    def error_of(self, jobs: Sequence[Job]) -> xm.ExperimentUnitError | None:
        """What the end of its jobs means to who waited; None if all completed."""
        return xm.completion_error(status_of(jobs), self)

    def stop(
        self,
        *,
        mark_as_failed: bool = False,
        mark_as_completed: bool = False,
        message: str | None = None,
    ) -> None:
        """A unit that ended already stays as it is."""
        if mark_as_failed and mark_as_completed:
            raise ValueError("mark_as_failed and mark_as_completed exclude each other; give one")
        stop = Stop(by=self._experiment.creator, message=message or "")
        if mark_as_failed:
            stop = stop.evolve(outcome=Outcome.FAILED)
        if mark_as_completed:
            stop = stop.evolve(outcome=Outcome.COMPLETED)
        try:
            self._experiment.client.stop_job(self.jobs()[0].id, stop)
        except IllegalTransition:
            if self.get_status().is_active:
                raise

    def get_status(self) -> xm.ExperimentUnitStatus:
        return status_of(self.jobs_now())

    def jobs_now(self) -> Sequence[Job]:
        """As the control plane has them now."""
        first, client = self.jobs()[0], self._experiment.client
        if not first.group:
            return [client.job(first.id)]
        return by_unit(client.jobs_of(self.experiment_id, unit=first.unit))[first.unit]

    def _key(self) -> str | None:
        return derived_id("identity", self.experiment_id, self.identity) if self.identity else None

    def _placed(self) -> Place:
        if self._place is None:
            raise RuntimeError("the unit has no job yet; add one to it first")
        return self._place


class WorkUnit(Unit, xm.WorkUnit):
    """A trial of the experiment."""

    @property
    def work_unit_id(self) -> int:
        return self.number


class AuxiliaryUnit(Unit, xm.AuxiliaryUnit):
    """A helper of the experiment, which the control plane ends after the work units."""

    @property
    def auxiliary_unit_id(self) -> int:
        """Auxiliary units are numbered together with work units."""
        return self.number
