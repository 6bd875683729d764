"""What machines and jobs used, kept as one blob each."""

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import NotFound
from xmcloud.core.models import Statistics
from xmcloud.core.worker_protocol import Measured


def statistics_of(job: str) -> str:
    """The prefix of what is kept of all its attempts."""
    return f"statistics/jobs/{job}/"


def _of_job(job: str, fence: int) -> str:
    return f"{statistics_of(job)}{fence}"


def _of_worker(name: str) -> str:
    return f"statistics/workers/{name}"


async def keep_job_statistics(plane: ControlPlane, measured: Measured) -> None:
    """In place of what was told before."""
    key = _of_job(measured.job_id, measured.fence)
    await plane.blobs.put(key, measured.statistics.model_dump_json().encode())


async def keep_worker_statistics(plane: ControlPlane, worker: str, told: Statistics) -> None:
    """In place of what was told before."""
    await plane.blobs.put(_of_worker(worker), told.model_dump_json().encode())


async def job_statistics(plane: ControlPlane, id: str, fence: int | None) -> Statistics:
    """Of an attempt, the newest by default. Raises `NotFound`, also where nothing was measured."""
    job = (await JOBS.get(plane.store, id)).item
    shown = fence or job.fence
    found = await _read(plane, _of_job(id, shown))
    if found is None:
        raise NotFound("statistics of attempt", f"{shown} of {job.full_name}")
    return found


async def worker_statistics(plane: ControlPlane, name: str) -> Statistics | None:
    """None before anything was measured."""
    return await _read(plane, _of_worker(name))


async def _read(plane: ControlPlane, key: str) -> Statistics | None:
    try:
        return Statistics.received(await plane.blobs.get(key))
    except NotFound:
        return None
