"""How a unit is doing, told by its jobs."""

from collections.abc import Sequence

from xmcloud import xm
from xmcloud.core.models import Job, JobState, ReasonCode

_ENDS = {
    JobState.FAILED: xm.UnitState.FAILED,
    JobState.STOPPED: xm.UnitState.STOPPED,
    JobState.COMPLETED: xm.UnitState.COMPLETED,
}
_TELLING = (
    JobState.FAILED,
    JobState.STOPPED,
    *(state for state in JobState if not state.terminal),
    JobState.COMPLETED,
)
_CONSEQUENCES = (ReasonCode.GROUP_STOPPED, ReasonCode.GROUP_RESTARTED)


def status_of(jobs: Sequence[Job]) -> xm.ExperimentUnitStatus:
    """Active until every job ended; then failed or stopped if any is.

    The message is that of the job which decided it, not of those that ended with it.
    """
    states = {job.state for job in jobs}
    over = all(state.terminal for state in states)
    end = next((_ENDS[state] for state in _ENDS if state in states), None)
    cause = min(jobs, key=_telling)
    name = f"{cause.name}: " if cause.group and cause.state is not JobState.COMPLETED else ""
    return xm.ExperimentUnitStatus(
        end if over and end else xm.UnitState.ACTIVE, f"{name}{cause.reason.message}"
    )


def _telling(job: Job) -> tuple[object, ...]:
    """Sorts what explains the state of a group before what only follows from it."""
    return (job.reason.code in _CONSEQUENCES, _TELLING.index(job.state), job.updated_at)
