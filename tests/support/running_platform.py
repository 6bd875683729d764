"""The platform in memory, with processes of this machine for what is submitted to it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.platform import MemoryPlatform
from xmcloud.core.arguments import render
from xmcloud.core.models import Job
from xmcloud.core.platforms import Launch, PlatformState
from xmcloud.core.specs import Image


@dataclass
class RunningPlatform(MemoryPlatform):
    """Jobs run unless they are `held`; what they write goes to `logs`."""

    logs: Path = field(kw_only=True)
    held: bool = False
    _running: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.logs.mkdir()

    def made(self, name: str, launch: Launch) -> None:
        if not self.held:
            self._running.add(asyncio.create_task(self._run(name, launch)))

    def log(self, name: str, index: int) -> Path:
        return self.logs / f"{name.replace('/', '-')}-{index}.log"

    async def _run(self, name: str, launch: Launch) -> None:
        """A group ends with its first job, and fails with any."""
        self.becomes(name, PlatformState.RUNNING)
        ends = [
            asyncio.create_task(self._end(job, launch, self.log(name, index)))
            for index, job in enumerate(launch.jobs)
        ]
        try:
            for index, end in enumerate(asyncio.as_completed(ends)):
                code = await end
                if code != 0:
                    lines = "".join(self.log(name, i).read_text() for i in range(len(ends)))
                    self.becomes(name, PlatformState.FAILED, lines[-1000:], code)
                if code != 0 or ends[0].done() or index == len(ends) - 1:
                    break
            self.becomes(name, PlatformState.SUCCEEDED, exit_code=0)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _end(self, job: Job, launch: Launch, log: Path) -> int:
        image = job.spec.executable
        assert isinstance(image, Image)
        environment = {**job.spec.environment, **launch.environment[job.id]}
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *image.command,
                *render(job.spec.arguments),
                env={"PATH": os.environ["PATH"], **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            return await process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@asynccontextmanager
async def running_platform(logs: Path) -> AsyncIterator[RunningPlatform]:
    platform = RunningPlatform(logs=logs)
    try:
        yield platform
    finally:
        await platform.stop()
