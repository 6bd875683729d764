"""A platform in memory: what is submitted to it goes on as a test says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tests.support.mishaps import Mishaps
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job
from xmcloud.core.platforms import Launch, PlatformJob, PlatformState


@dataclass
class MemoryPlatform:
    """`Platform`. While `slow`, it takes note of a cancellation and goes on until it catches up.

    `launches` are those that took effect, by the name of what came of them; `events` what it
    told so far.
    """

    id: str = "memory"
    mishaps: Mishaps = field(default_factory=Mishaps)
    slow: bool = False
    launches: dict[str, Launch] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    _jobs: dict[str, PlatformJob] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    def check(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            kind = job.spec.executable.kind
            if kind != "image":
                raise InvalidInput("executable.kind", kind, "image")

    async def submit(self, launch: Launch) -> PlatformJob:
        await self.mishaps.call("platform.submit")
        self.mishaps.before_submission()
        name = f"{self.id}/jobs/{next(self._numbers)}"
        self.launches[name] = launch
        self._jobs[name] = PlatformJob(
            name, PlatformState.PENDING, url=f"https://console.example/{name}"
        )
        self.made(name, launch)
        self.mishaps.after_submission()
        return self._jobs[name]

    def made(self, name: str, launch: Launch) -> None:
        """Nothing runs by itself."""

    async def find(self, label: str) -> list[PlatformJob]:
        await self.mishaps.call("platform.find")
        return [self._jobs[name] for name in self.named(label)]

    async def get(self, name: str) -> PlatformJob | None:
        await self.mishaps.call("platform.get")
        return self._jobs.get(name)

    async def cancel(self, name: str) -> None:
        await self.mishaps.call("platform.cancel")
        self.cancelled.append(name)
        if not self.slow and name in self._jobs:
            self.becomes(name, PlatformState.CANCELLED)

    def event(self, body: str) -> str | None:
        try:
            told = json.loads(body)
        except ValueError:
            return None
        is_ours = isinstance(told, dict) and told.get("platform") == self.id
        return str(told["name"]) if is_ours else None

    async def close(self) -> None:
        """Holds nothing."""

    def named(self, label: str) -> list[str]:
        """What was submitted with the label and is still known, the oldest first."""
        return [
            n for n, launch in self.launches.items() if launch.label == label and n in self._jobs
        ]

    def live(self) -> list[str]:
        """What has not ended."""
        return [name for name, job in self._jobs.items() if not job.state.terminal]

    def state(self, name: str) -> PlatformState:
        return self._jobs[name].state

    def becomes(
        self, name: str, state: PlatformState, message: str = "", exit_code: int | None = None
    ) -> str:
        """The event that tells so. What has ended stays as it is."""
        job = self._jobs[name]
        if not job.state.terminal:
            self._jobs[name] = replace(job, state=state, message=message, exit_code=exit_code)
            self.events.append(json.dumps({"platform": self.id, "name": name}))
        return json.dumps({"platform": self.id, "name": name})

    def catch_up(self) -> None:
        """What was cancelled ends."""
        self.slow = False
        for name in self.cancelled:
            if name in self._jobs:
                self.becomes(name, PlatformState.CANCELLED)

    def forget(self, name: str) -> None:
        """As if it had never been."""
        del self._jobs[name]
