"""Units of an experiment: one job each."""

from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

from xmcloud import xm
from xmcloud.core.errors import IllegalTransition
from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.names import derived_id
from xmcloud.core.protocol import Stop
from xmcloud.xm_cloud.awaiting import Pending, mapped
from xmcloud.xm_cloud.executors import Local
from xmcloud.xm_cloud.requests import new_unit, single_job
from xmcloud.xm_cloud.sender import Place
from xmcloud.xm_cloud.unsupported import Unsupported

if TYPE_CHECKING:
    from xmcloud.xm_cloud.experiment import Experiment

STATES = {
    JobState.COMPLETED: xm.UnitState.COMPLETED,
    JobState.FAILED: xm.UnitState.FAILED,
    JobState.STOPPED: xm.UnitState.STOPPED,
}


def status_of(job: Job) -> xm.ExperimentUnitStatus:
    state = STATES.get(job.state, xm.UnitState.ACTIVE)
    return xm.ExperimentUnitStatus(state, job.reason.message)


class WorkUnit(xm.WorkUnit):
    """A unit with the one job that was added to it; a generator gets it before the job is."""

    def __init__(self, experiment: "Experiment", identity: str = "") -> None:
        self._experiment = experiment
        self._identity = identity
        self._place: Place | None = None
        self._executor: xm.Executor | None = None

    @classmethod
    def of(cls, experiment: "Experiment", job: Job) -> Self:
        """A unit that the control plane has already."""
        unit = cls(experiment)
        unit._place = Place()
        unit._place.job.set_result(job)
        return unit

    @property
    def experiment_id(self) -> str:
        return self._experiment.experiment_id

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def work_unit_id(self) -> int:
        """Blocks while the job is being sent; in a generator it is known before."""
        if self._place is not None and self._executor is None and not self._place.job.done():
            return self._experiment.sender.promise(self._place)
        return self.job().unit

    @property
    def experiment_unit_name(self) -> str:
        return f"{self.experiment_id}_{self.work_unit_id}"

    @property
    def context(self) -> xm.MetadataContext:
        return self._experiment.context

    @property
    def launched_jobs(self) -> Sequence[xm.LaunchedJob]:
        return [xm.LaunchedJob(name=self.get_full_job_name(self.job().name))]

    @property
    def local(self) -> Local | None:
        """The executor of a job that was added here and runs on this machine."""
        return self._executor if isinstance(self._executor, Local) else None

    @property
    def has_job(self) -> bool:
        return self._executor is not None

    def job(self) -> Job:
        """As the control plane made it; blocks until it was sent, raises what refused it."""
        return self._placed().job.result()

    def add(
        self, job: xm.JobType, args: Mapping[str, Any] | None = None, *, identity: str = ""
    ) -> Awaitable[None]:
        """Raises `Unsupported` for a second job, `InvalidInput` for one that cannot be sent."""
        if identity:
            raise Unsupported(
                f"identity is {identity!r} for a job of a unit.", "Give it to experiment.add."
            )
        self.send(single_job(job, args))
        return Pending(mapped(self._placed().job, lambda _: None))

    def send(self, job: xm.Job) -> None:
        if self._executor is not None:
            raise Unsupported(
                "A second job was added to the unit.", "Add one job a unit; groups come later."
            )
        unit = new_unit(job, self._experiment.client.url)
        self._executor = job.executor
        if self._place is None:
            self._place = self._experiment.sender.add(unit, self._key())
        else:
            self._place.key = self._key()
            self._experiment.sender.fill(self._place, unit)

    def sent(self) -> Future[Self]:
        """The unit itself, once the control plane has its job."""
        return mapped(self._placed().job, lambda _: self)

    def reserve(self) -> None:
        """Takes the next number, for a job that a generator will add."""
        self._place = self._experiment.sender.reserve()

    def abandon(self) -> None:
        """Gives up the number if no job was added."""
        if self._place is not None and self._executor is None:
            self._experiment.sender.withdraw(self._place)

    async def wait_until_complete(self) -> Self:
        job = await Pending(self._placed().job)
        ended = await Pending(self._experiment.watcher.ended(job.id))
        if error := self.error_of(ended):
            raise error
        return self

    wait_for_completion = wait_until_complete

    def error_of(self, job: Job) -> xm.ExperimentUnitError | None:
        """What the end of its job means to who waited; None if it completed."""
        return xm.completion_error(status_of(job), self)

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
            self._experiment.client.stop_job(self.job().id, stop)
        except IllegalTransition:
            if self.get_status().is_active:
                raise

    def get_status(self) -> xm.ExperimentUnitStatus:
        return status_of(self._experiment.client.job(self.job().id))

    def _key(self) -> str | None:
        return derived_id("identity", self.experiment_id, self.identity) if self.identity else None

    def _placed(self) -> Place:
        if self._place is None:
            raise RuntimeError("the unit has no job yet; add one to it first")
        return self._place
