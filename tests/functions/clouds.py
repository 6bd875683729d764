"""A control plane with a target, and what a test does with both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.functions.groups import add, now
from tests.support.clock import ManualClock
from tests.support.platform import MemoryPlatform
from tests.support.recording import RecordedStore, Recording
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.observing import platform_event
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Job
from xmcloud.core.platforms import PlatformState
from xmcloud.core.protocol import NewJob, Targets, TargetStatus

IMAGE = {"kind": "image", "image": "registry.example/train@sha256:1"}
URL = "https://xmcloud.example"


class Killed(Exception):
    """The process of the control plane ends."""


@dataclass
class Cloud:
    """A control plane with one target, "cloud"."""

    api: Api
    platform: MemoryPlatform
    recording: Recording
    targets: dict[str, Target]

    def allow(self, limit: int, per_minute: float = 600) -> None:
        self.targets["cloud"] = Target(self.platform, limit, per_minute)

    async def dispatch(self) -> int:
        return await dispatch(self.api.plane, "cloud")

    async def later(self, time: timedelta) -> None:
        """What the sweep does when that time has passed."""
        self.api.clock.advance(time)
        await sweep(self.api.plane)

    def name(self, job: Job, fence: int = 1) -> str:
        """What the platform calls the one job that was submitted for the attempt."""
        (name,) = self.platform.named(f"{job.members[0]}-{fence}")
        return name

    async def becomes(self, job: Job, state: PlatformState, fence: int = 1, **told: Any) -> Job:
        """The job after the event that tells of its attempt on the platform."""
        event = self.platform.becomes(self.name(job, fence), state, **told)
        await platform_event(self.api.plane, event)
        return await self.now(job)

    async def now(self, job: Job) -> Job:
        return (await now(self.api, [job]))[0]

    async def stop(self, job: Job) -> Job:
        return await self.api.post(Job, f"/jobs/{job.id}/stop", {"by": "ann"})

    async def status(self) -> TargetStatus:
        (status,) = (await self.api.get(Targets, "/targets")).targets
        return status

    def die_at(self, operation: str, after: int = 0) -> None:
        """The control plane dies before that operation, of which some more go well first."""
        left = after

        async def die(name: str) -> None:
            nonlocal left
            left -= name == operation
            if left < 0:
                self.live()
                raise Killed

        self.recording.before = self.platform.mishaps.before = die

    def live(self) -> None:
        self.recording.reset()
        self.platform.mishaps.before = self.recording.before


@asynccontextmanager
async def opened_cloud(folder: Path) -> AsyncIterator[Cloud]:
    clock, signals = ManualClock(), HeardSignals()
    platform, recording, targets = MemoryPlatform(), Recording(), dict[str, Target]()
    plane = sqlite_plane(folder, clock, signals)
    store = RecordedStore(plane.store, recording)
    plane = replace(plane, store=store, targets=targets, url=URL)
    async with opened_api(plane, clock, signals, folder) as api:
        cloud = Cloud(api, platform, recording, targets)
        cloud.allow(limit=4)
        yield cloud


def image(name: str = "train", queue: str | None = "default", **spec: Any) -> NewJob:
    return new_job(name, queue, **{"executable": IMAGE, "pool": "cloud", **spec})


async def submitted(cloud: Cloud, *jobs: NewJob) -> list[Job]:
    """Single jobs, by default one, that the platform has."""
    made = await add(cloud.api, *[[job] for job in jobs or [image()]])
    assert await cloud.dispatch() == len(made)
    return await now(cloud.api, made)
