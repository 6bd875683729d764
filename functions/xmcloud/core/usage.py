"""What attempts used of GPUs, as a ledger: one entry for each that ended."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from xmcloud.core.base import Model, Time
from xmcloud.core.identity import Quota
from xmcloud.core.models import Attempt, Job
from xmcloud.core.names import Id, Slug, Title, derived_id
from xmcloud.core.resources import is_gpu
from xmcloud.core.specs import JobSpec

Month = Annotated[str, StringConstraints(pattern=r"^2\d{3}-(0[1-9]|1[0-2])$")]
"""Of UTC: 2026-11."""


class Usage(Model):
    """What one attempt used; less than nothing takes back what was counted too early."""

    id: Id
    project: Slug
    person: Title
    month: Month = Field(description="In which the attempt ended.")
    job_id: Id
    fence: int
    kind: str
    gpus: float
    gpu_seconds: float
    ended_at: Time


class PersonUsage(Model):
    """What somebody has in a project."""

    person: Title
    running: int = Field(description="Jobs that run now.")
    queued: int = Field(description="Jobs that wait now, for their turn or their image.")
    gpu_hours: float = Field(description="In the month, with what runs so far.")


class ProjectUsage(Model):
    """What a project has, and each person in it, beside what they may have."""

    project: Slug
    month: Month
    quota: Quota
    person_quota: Quota
    running: int
    queued: int
    gpu_hours: float
    people: list[PersonUsage]


def month_of(time: datetime) -> Month:
    return f"{time:%Y-%m}"


def gpus_of(spec: JobSpec) -> float:
    """On all its machines."""
    each = sum(amount for name, amount in spec.resources.items() if is_gpu(name))
    return each * spec.replicas


def gpu_seconds(job: Job, attempt: Attempt, until: datetime) -> float:
    """From its claim on, since they are held for nobody else from then on."""
    held = max(0.0, (until - attempt.claimed_at).total_seconds())
    return gpus_of(job.spec) * held


def ledger(before: Job, after: Job) -> list[Usage]:
    """The entries of a change: of an attempt that ended, and of one given up that goes on."""
    if not gpus_of(before.spec) or not before.attempts or not after.attempts:
        return []
    was, now = before.attempts[-1], after.attempts[-1]
    if was.fence != now.fence or was.open == now.open:
        return []
    ended = now if was.open else was
    return [_entry(before, ended, 1 if was.open else -1)]


def _entry(job: Job, attempt: Attempt, sign: int) -> Usage:
    """Once for each session that held the attempt: one that comes back does so under another."""
    assert attempt.finished_at is not None
    return Usage(
        id=derived_id("usage", job.id, str(attempt.fence), attempt.session, str(sign)),
        project=job.project,
        person=job.creator,
        month=month_of(attempt.finished_at),
        job_id=job.id,
        fence=attempt.fence,
        kind=next(name for name in job.spec.resources if is_gpu(name)),
        gpus=gpus_of(job.spec),
        gpu_seconds=sign * gpu_seconds(job, attempt, attempt.finished_at),
        ended_at=attempt.finished_at,
    )
