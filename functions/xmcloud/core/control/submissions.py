"""One attempt on a platform: submitting it, and what becomes of that."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from xmcloud.core import lifecycle
from xmcloud.core.control.changing import change_group, spread
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.documents import TARGETS
from xmcloud.core.errors import InvalidInput, StaleFence, Unavailable
from xmcloud.core.models import Block, Job, Outcome, Reason, ReasonCode, Remote
from xmcloud.core.platforms import (
    Launch,
    PlatformJob,
    PlatformRefused,
    PlatformState,
    QuotaExceeded,
)
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.resources import accelerator
from xmcloud.core.trace import VARIABLE

SUBMITTING = timedelta(seconds=30)
"""How long a submission may take before the sweep looks for what became of it."""

QUOTA_PAUSE = timedelta(seconds=60)
"""How long a target gets no more jobs of a kind that it has no quota for."""


def label_of(unit: Sequence[Job]) -> str:
    """Names this attempt of the unit, and no other."""
    return f"{unit[0].id}-{unit[0].fence}"


async def submit(plane: ControlPlane, name: str, unit: Sequence[Job]) -> None:
    """Gives claimed jobs to the platform. What it does not take waits on, or has failed."""
    platform = plane.targets[name].platform
    try:
        platform.check(unit)
        found = await platform.submit(_launch(plane, unit))
    except QuotaExceeded as error:
        await _postpone(plane, name, unit, error.detail)
    except (PlatformRefused, InvalidInput) as error:
        reason = Reason(code=ReasonCode.REFUSED, message=f"{name} refused it: {error}"[:4000])
        await change_attempts(
            plane,
            unit,
            lambda job: lifecycle.refused(job, job.fence, reason, plane.clock.now()),
        )
    except Unavailable:
        plane.alarm(f"submissions/{name}", plane.clock.now() + SUBMITTING)
    else:
        await record(plane, name, unit, found)


def _launch(plane: ControlPlane, unit: Sequence[Job]) -> Launch:
    environment = {job.id: _environment(plane, job) for job in unit}
    return Launch(label=label_of(unit), jobs=unit, environment=environment)


def _environment(plane: ControlPlane, job: Job) -> dict[str, str]:
    """What tells a process which attempt it is, and where to tell of itself."""
    about = {
        "XMCLOUD_EXPERIMENT_ID": job.experiment_id,
        "XMCLOUD_UNIT": str(job.unit),
        "XMCLOUD_JOB_NAME": job.name,
        "XMCLOUD_JOB_ID": job.id,
        "XMCLOUD_ATTEMPT": str(job.fence),
        "XMCLOUD_GRACE_SECONDS": f"{job.spec.limits.grace_seconds:g}",
    }
    if job.trace and VARIABLE not in job.spec.environment:
        about[VARIABLE] = job.trace
    if not plane.url:
        return about
    token = plane.tokens.token(job.id, job.fence)
    return {**about, "XMCLOUD_URL": plane.url, "XMCLOUD_ATTEMPT_TOKEN": token}


async def record(plane: ControlPlane, name: str, unit: Sequence[Job], found: PlatformJob) -> None:
    """Writes down what the platform calls the unit; cancels what came too late."""
    remote = Remote(name=found.name, url=found.url, log_url=found.log_url)

    def decide(job: Job) -> Job:
        if job.attempt is not None and job.attempt.remote not in (None, remote):
            raise StaleFence(job.id, job.fence, "it was submitted twice")
        return lifecycle.submitted(job, job.fence, remote, plane.clock.now())

    recorded = await change_attempts(plane, unit, decide)
    if len(recorded) < len(unit) or any(job.stop for job in recorded):
        with suppress(Unavailable):
            await plane.targets[name].platform.cancel(found.name)
    if recorded:
        await observed(plane, recorded, found)


async def observed(plane: ControlPlane, unit: Sequence[Job], found: PlatformJob | None) -> None:
    """What the platform says of the jobs of a unit, written down."""
    await change_attempts(plane, unit, lambda job: _after(plane, job, found))


def _after(plane: ControlPlane, job: Job, found: PlatformJob | None) -> Job:
    now, fence = plane.clock.now(), job.fence
    where = job.attempt.worker if job.attempt else ""
    if found is None:
        gone = Reason(code=ReasonCode.PLATFORM_FAILED, message=f"{where} has lost it")
        return lifecycle.lost(job, fence, gone, now)
    message = (found.message or f"{found.state} on {where}")[:4000]
    match found.state:
        case PlatformState.PENDING:
            return _pending(job, where, found.message, now)
        case PlatformState.RUNNING:
            return lifecycle.started(job, fence, now, now)
        case PlatformState.SUCCEEDED:
            reason = Reason(code=ReasonCode.EXITED, message="exit code 0", exit_code=0)
            return lifecycle.finished(job, fence, Outcome.COMPLETED, reason, now)
        case PlatformState.FAILED:
            reason = Reason(code=ReasonCode.EXITED, message=message, exit_code=found.exit_code)
            return lifecycle.finished(job, fence, Outcome.FAILED, reason, now)
        case PlatformState.CANCELLED:
            reason = Reason(code=ReasonCode.STOP_REQUESTED, message=f"cancelled on {where}")
            return lifecycle.finished(job, fence, Outcome.STOPPED, reason, now)
        case PlatformState.PREEMPTED:
            reason = Reason(code=ReasonCode.PREEMPTED, message=message)
            return lifecycle.finished(job, fence, Outcome.LOST, reason, now)
        case PlatformState.BROKEN:
            reason = Reason(code=ReasonCode.PLATFORM_FAILED, message=message)
            return lifecycle.finished(job, fence, Outcome.LOST, reason, now)


def _pending(job: Job, where: str, message: str, now: datetime) -> Job:
    """Tells why it does not run yet, when the platform says so."""
    told = Reason(code=ReasonCode.SUBMITTED, message=f"waits on {where}: {message}"[:4000])
    if not message or job.reason == told:
        return job
    return job.evolve(reason=told, updated_at=now)


async def _postpone(plane: ControlPlane, name: str, unit: Sequence[Job], why: str) -> None:
    """Back into the queue with the reason, and a pause for the target's jobs of that kind."""
    now = plane.clock.now()
    until = now + QUOTA_PAUSE
    message = f"{name} has no quota for it now, it is tried again: {why}"[:4000]
    kinds = sorted({accelerator(job.spec) for job in unit})
    await _block(plane, name, {kind: Block(until=until, message=why[:1000]) for kind in kinds})
    plane.alarm(f"dispatch/{name}", until)
    reason = Reason(code=ReasonCode.QUOTA, message=message)
    await change_attempts(
        plane, unit, lambda job: lifecycle.postponed(job, job.fence, reason, until, now)
    )


async def _block(plane: ControlPlane, name: str, blocks: dict[str, Block]) -> None:
    for attempt in range(TRIES):
        (stored,) = await TARGETS.get_many(plane.store, [name])
        assert stored is not None
        changed = stored.item.evolve(blocks={**stored.item.blocks, **blocks})
        try:
            await plane.store.commit([TARGETS.replace(stored, changed)])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        return


async def change_attempts(
    plane: ControlPlane, unit: Sequence[Job], decide: Callable[[Job], Job]
) -> list[Job]:
    """Changes, together, the attempts of the unit that are still under way; those, as they are.

    A decision that raises `StaleFence` leaves its attempt as it is, and out of the answer.
    """
    fences = {job.id: job.fence for job in unit}
    taken: set[str] = set()

    def decide_all(jobs: list[Job]) -> list[Job]:
        taken.clear()
        return [decided(job) for job in jobs]

    def decided(job: Job) -> Job:
        if job.attempt is None or fences.get(job.id) != job.fence:
            return job
        with suppress(StaleFence):
            after = decide(job)
            taken.add(job.id)
            return after
        return job

    done = await change_group(plane, unit[0].id, decide_all)
    await spread(plane, done.all)
    return [stored.item for stored in done.unit if stored.item.id in taken]
