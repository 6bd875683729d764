"""What the process of an attempt on a target tells of itself, with its own token."""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import TOKEN, Api, HeardSignals, finished, new_job, opened_api, started
from tests.functions.conftest import sqlite_plane
from tests.support.clock import ManualClock
from tests.support.platform import MemoryPlatform
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.observing import platform_event
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job, JobState
from xmcloud.core.platforms import PlatformState
from xmcloud.core.protocol import LogSlice, Problem
from xmcloud.core.worker_protocol import AttemptAnswer

pytestmark = pytest.mark.anyio

IMAGE = {"kind": "image", "image": "registry.example/train@sha256:1"}


@pytest.fixture
def platform() -> MemoryPlatform:
    return MemoryPlatform()


@pytest.fixture
async def api(tmp_path: Path, platform: MemoryPlatform, anyio_backend: str) -> AsyncIterator[Api]:
    clock, signals = ManualClock(), HeardSignals()
    plane = sqlite_plane(tmp_path, clock, signals)
    plane = replace(plane, targets={"cloud": Target(platform)}, url="https://xmcloud.example")
    async with opened_api(plane, clock, signals, tmp_path) as api:
        yield api


@pytest.fixture
async def job(api: Api) -> Job:
    """One that the platform has."""
    (job,) = await api.jobs(await api.experiment(), new_job(executable=IMAGE, pool="cloud"))
    await dispatch(api.plane, "cloud")
    return await api.get(Job, f"/jobs/{job.id}")


def token(platform: MemoryPlatform, job: Job) -> str:
    """What the platform gave its process."""
    (launch,) = (each for each in platform.launches.values() if job.id in each.environment)
    return launch.environment[job.id]["XMCLOUD_ATTEMPT_TOKEN"]


async def tell(
    api: Api, job: Job, token: str, *reports: dict[str, Any], fence: int = 1, status: int = 200
) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    path, body = f"/attempts/{job.id}/{fence}/reports", {"reports": reports}
    if status != 200:
        return await api.refused("POST", path, status, body, headers=headers)
    return await api.post(AttemptAnswer, path, body, headers=headers)


async def test_it_starts_ends_and_leaves_results(
    api: Api, platform: MemoryPlatform, job: Job
) -> None:
    mine = token(platform, job)
    assert (await tell(api, job, mine, started(job))).results[0].problem is None
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.RUNNING
    await tell(api, job, mine, finished(job, accuracy=0.5))
    job = await api.get(Job, f"/jobs/{job.id}")
    assert (job.state, job.results) == (JobState.COMPLETED, {"accuracy": 0.5})


async def test_what_it_writes_goes_to_the_log(api: Api, platform: MemoryPlatform, job: Job) -> None:
    data = base64.b64encode(b"epoch 1\n").decode()
    output = {"event": "output", "job_id": job.id, "fence": 1, "offset": 0, "data": data}
    await tell(api, job, token(platform, job), started(job), output)
    log = await api.get(LogSlice, f"/jobs/{job.id}/log")
    assert (log.fence, log.data, log.complete) == (1, b"epoch 1\n", False)


async def test_results_that_are_too_large_are_refused(
    api: Api, platform: MemoryPlatform, job: Job
) -> None:
    answer = await tell(api, job, token(platform, job), finished(job, text="x" * 20_000))
    assert answer.results[0].problem.status == 413
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.STARTING


async def test_a_stop_is_heard(api: Api, platform: MemoryPlatform, job: Job) -> None:
    platform.slow = True
    mine = token(platform, job)
    assert (await tell(api, job, mine)).stop is None
    await api.post(Job, f"/jobs/{job.id}/stop", {"by": "ann", "message": "enough"})
    stop = (await tell(api, job, mine)).stop
    assert (stop.job_id, stop.fence, stop.message) == (job.id, 1, "enough")
    await tell(api, job, mine, finished(job, "stopped"))
    assert (await api.get(Job, f"/jobs/{job.id}")).state is JobState.STOPPED


async def test_a_token_is_good_for_one_attempt_only(
    api: Api, platform: MemoryPlatform, job: Job
) -> None:
    (other,) = await api.jobs(await api.experiment(), new_job(executable=IMAGE, pool="cloud"))
    await dispatch(api.plane, "cloud")
    for wrong in (token(platform, other), TOKEN, "", "é"):
        response = await api.call(
            "POST",
            f"/attempts/{job.id}/1/reports",
            {},
            401,
            headers={"Authorization": f"Bearer {wrong}".encode()},
        )
        assert Problem.model_validate_json(response.content).type.endswith("unauthorized")
    await tell(api, job, token(platform, job), fence=2, status=401)
    await api.refused(
        "GET", f"/jobs/{job.id}", 401, headers={"Authorization": f"Bearer {token(platform, job)}"}
    )


async def test_it_tells_of_itself_only(api: Api, platform: MemoryPlatform, job: Job) -> None:
    (other,) = await api.jobs(await api.experiment(), new_job(executable=IMAGE, pool="cloud"))
    await dispatch(api.plane, "cloud")
    report = started(other.evolve(fence=1))
    refusal = await tell(api, job, token(platform, job), report, status=422)
    assert refusal.field == "reports"
    assert (await api.get(Job, f"/jobs/{other.id}")).state is JobState.STARTING


async def test_an_attempt_that_is_over_counts_no_more(
    api: Api, platform: MemoryPlatform, job: Job
) -> None:
    """Once the platform took its machine away, and the next attempt began elsewhere."""
    mine, (name,) = token(platform, job), platform.live()
    platform.becomes(name, PlatformState.PREEMPTED)
    await sweep(api.plane)
    again = await api.get(Job, f"/jobs/{job.id}")
    assert (again.state, again.fence) == (JobState.STARTING, 2)
    problem = await tell(api, job, mine, finished(job), status=409)
    assert problem.type.endswith("stale-fence")
    assert await api.get(Job, f"/jobs/{job.id}") == again


async def test_the_end_may_be_told_by_the_process_and_by_the_platform(
    api: Api, platform: MemoryPlatform, job: Job
) -> None:
    (name,) = platform.live()
    await tell(api, job, token(platform, job), finished(job, "failed"))
    failed = await api.get(Job, f"/jobs/{job.id}")
    await platform_event(api.plane, platform.becomes(name, PlatformState.FAILED))
    assert await api.get(Job, f"/jobs/{job.id}") == failed
