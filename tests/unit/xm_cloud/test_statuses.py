"""The status of a unit, from the states of its jobs."""

import pytest

from tests.unit.xm_cloud.jobs import job
from xmcloud import xm
from xmcloud.core.models import Job, JobState, Member, Reason, ReasonCode
from xmcloud.xm_cloud.grouping import by_unit
from xmcloud.xm_cloud.statuses import status_of

FAILED, STOPPED, COMPLETED = JobState.FAILED, JobState.STOPPED, JobState.COMPLETED
RUNNING, QUEUED = JobState.RUNNING, JobState.QUEUED


def group(*states: JobState, sibling: ReasonCode = ReasonCode.EXITED) -> list[Job]:
    """Jobs of one unit; the second and later ones are in their state for the reason `sibling`."""
    jobs = [job(index + 1, state) for index, state in enumerate(states)]
    members = tuple(Member(id=each.id, name=f"j{index}") for index, each in enumerate(jobs))
    code = [ReasonCode.EXITED, *[sibling] * (len(jobs) - 1)]
    return [
        each.evolve(
            unit=1,
            name=f"j{index}",
            group=members,
            reason=Reason(code=code[index], message=f"m{index}"),
        )
        for index, each in enumerate(jobs)
    ]


@pytest.mark.parametrize(
    ("states", "state", "message"),
    [
        ([COMPLETED, COMPLETED], xm.UnitState.COMPLETED, "m0"),
        ([COMPLETED, RUNNING], xm.UnitState.ACTIVE, "j1: m1"),
        ([COMPLETED, STOPPED], xm.UnitState.STOPPED, "j1: m1"),
        ([STOPPED, FAILED, COMPLETED], xm.UnitState.FAILED, "j1: m1"),
        ([FAILED, RUNNING], xm.UnitState.ACTIVE, "j0: m0"),
        ([QUEUED, QUEUED], xm.UnitState.ACTIVE, "j0: m0"),
    ],
)
def test_one_status_for_a_group(states: list[JobState], state: xm.UnitState, message: str) -> None:
    assert status_of(group(*states)) == xm.ExperimentUnitStatus(state, message)


@pytest.mark.parametrize("state", [FAILED, STOPPED])
def test_the_message_is_that_of_the_cause(state: JobState) -> None:
    cause, *siblings = group(state, STOPPED, STOPPED, sibling=ReasonCode.GROUP_STOPPED)
    assert status_of([*siblings, cause]).message == "j0: m0"


def test_a_job_that_waits_for_its_image_is_active() -> None:
    building = job(1).evolve(state=JobState.BUILDING, waiting=None)
    assert status_of([building]).is_active


def test_jobs_by_unit_are_in_the_order_of_their_group() -> None:
    first, second = group(QUEUED, QUEUED)
    alone = job(3)
    assert by_unit([alone, second, first]) == {3: [alone], 1: [first, second]}
