"""What is promised of groups and of attempts on targets, whatever happens."""

from collections.abc import Mapping, Sequence

from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.platforms import Launch

UNCOUNTED = (ReasonCode.QUOTA, ReasonCode.GROUP_RESTARTED)


def check_group(group: Sequence[Job]) -> None:
    """They end together, and run again together."""
    if len(group) == 1:
        return
    states = {job.state for job in group}
    active = [job for job in group if job.state.active]
    if states & {JobState.FAILED, JobState.STOPPED}:
        assert JobState.QUEUED not in states, f"a part of a group waits on: {states}"
        assert all(job.stop for job in active), "a part of a group runs on"
    if JobState.QUEUED in states:
        assert all(job.stop for job in active), "a part of a group runs while another waits"
    starts = {job.attempt.claimed_at for job in active if job.attempt}
    assert len(starts) <= 1, "the attempts of a group did not begin together"


def check_losses(before: Job, after: Job) -> None:
    """Only an interruption is counted as one."""
    known = {attempt.fence for attempt in before.attempts if not attempt.open}
    closed = [a for a in after.attempts if not a.open and a.fence not in known]
    counted = [
        attempt
        for attempt in closed
        if attempt.outcome in (Outcome.LOST, Outcome.RELEASED)
        and attempt.reason is not None
        and attempt.reason.code not in UNCOUNTED
    ]
    assert after.losses - before.losses <= len(counted), f"{after.id} lost nothing"
    if after.state is JobState.QUEUED:
        assert after.losses - before.losses == len(counted), f"{after.id} was interrupted"


def check_launch(launch: Launch, jobs: Mapping[str, Job]) -> None:
    """Of a group, all that is left is submitted together."""
    there = {job.id for job in launch.jobs}
    for id in launch.jobs[0].members:
        assert id in there or jobs[id].state is JobState.COMPLETED, "a group runs in part"
