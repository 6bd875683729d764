"""A builder in memory: what is submitted to it goes on as a test says."""

import json
from dataclasses import dataclass, field, replace
from itertools import count

from tests.support.mishaps import Mishaps
from xmcloud.core.builds import Build
from xmcloud.core.platforms import BuilderJob, BuilderState

OPEN = (BuilderState.WAITING, BuilderState.WORKING)


@dataclass
class MemoryBuilder:
    """`Builder`. `tags` are those of the builds that were submitted, by name."""

    mishaps: Mishaps = field(default_factory=Mishaps)
    tags: dict[str, str] = field(default_factory=dict)
    _jobs: dict[str, BuilderJob] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    async def submit(self, build: Build) -> BuilderJob:
        await self.mishaps.call("builder.submit")
        self.mishaps.before_submission()
        name = f"builds/{next(self._numbers)}"
        self.tags[name] = build.tag
        self._jobs[name] = BuilderJob(
            name, BuilderState.WAITING, url=f"https://console.example/{name}"
        )
        self.mishaps.after_submission()
        return self._jobs[name]

    async def find(self, build: Build) -> BuilderJob | None:
        await self.mishaps.call("builder.find")
        found = (self._jobs.get(name) for name, tag in self.tags.items() if tag == build.tag)
        return next((job for job in found if job is not None), None)

    async def get(self, name: str) -> BuilderJob | None:
        await self.mishaps.call("builder.get")
        return self._jobs.get(name)

    async def cancel(self, name: str) -> None:
        await self.mishaps.call("builder.cancel")
        if name in self._jobs:
            self.becomes(name, BuilderState.CANCELLED)

    def event(self, body: str) -> str | None:
        try:
            told = json.loads(body)
        except ValueError:
            return None
        return str(told["build"]) if isinstance(told, dict) and "build" in told else None

    async def close(self) -> None:
        """Holds nothing."""

    def state(self, name: str) -> BuilderState:
        return self._jobs[name].state

    def becomes(self, name: str, state: BuilderState, **told: str) -> str:
        """The event that tells so. What has ended stays as it is."""
        if self._jobs[name].state in OPEN:
            self._jobs[name] = replace(self._jobs[name], state=state, **told)
        return json.dumps({"build": name})

    def forget(self, name: str) -> None:
        """As if it had never been."""
        del self._jobs[name]
