"""The output of attempts, kept as blobs named by the offset they begin at."""

from datetime import timedelta

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS
from xmcloud.core.models import Job
from xmcloud.core.protocol import LogSlice
from xmcloud.core.signals import woken
from xmcloud.core.worker_protocol import OUTPUT_LIMIT


def log_key(job: str, fence: int, offset: int) -> str:
    """Keys sort as offsets do."""
    return f"logs/{job}/{fence}/{offset:015d}"


async def log_size(plane: ControlPlane, job: str, fence: int) -> int:
    """Bytes that are there of the output of an attempt."""
    ends = [
        int(key.rpartition("/")[2]) + size
        for key, size in await plane.blobs.list(f"logs/{job}/{fence}/")
    ]
    return max(ends, default=0)


async def read_log(
    plane: ControlPlane, job_id: str, fence: int | None, offset: int, wait: float
) -> LogSlice:
    """Output of an attempt (the newest by default) from byte `offset` on, at most 1 MiB.

    Waits up to `wait` seconds while an open attempt has none. Raises `NotFound`.
    """
    deadline = plane.clock.now() + timedelta(seconds=wait)
    async with plane.signals.listen(f"job/{job_id}") as event:
        while True:
            job = (await JOBS.get(plane.store, job_id)).item
            shown = fence or job.fence
            data = await _slice(plane, job_id, shown, offset)
            left = (deadline - plane.clock.now()).total_seconds()
            over = not _may_grow(job, shown)
            if data or over or left <= 0:
                complete = over and len(data) < OUTPUT_LIMIT
                return LogSlice.model_construct(
                    fence=shown, offset=offset, data=data, complete=complete
                )
            await woken(event, min(left, plane.look_again.total_seconds()))


def _may_grow(job: Job, fence: int) -> bool:
    """The attempt is open, or the job has yet to begin the one that is asked for."""
    if job.attempt is not None:
        return job.attempt.fence == fence
    return not job.state.terminal and not job.attempts


async def _slice(plane: ControlPlane, job: str, fence: int, offset: int) -> bytes:
    """Pieces may overlap after one was sent again in another size; bytes come once."""
    parts: list[bytes] = []
    at, end = offset, offset + OUTPUT_LIMIT
    for key, size in await plane.blobs.list(f"logs/{job}/{fence}/"):
        start = int(key.rpartition("/")[2])
        if start + size <= at or at >= end:
            continue
        if start > at:
            break
        part = await plane.blobs.get(key, at - start, min(size, end - start))
        parts.append(part)
        at += len(part)
    return b"".join(parts)
