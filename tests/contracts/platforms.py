"""Every platform, each with what makes it fail on demand, for the suite beside this file."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.support.builders import draft
from tests.support.running_platform import RunningPlatform, running_platform
from xmcloud.adapters.gcp.vertex import VertexPlatform
from xmcloud.core.models import Job, Member
from xmcloud.core.names import derived_id
from xmcloud.core.platforms import Launch, Platform, PlatformJob, PlatformState
from xmcloud.core.specs import Argument, Image, JobSpec, PlatformOptions, VertexOptions
from xmcloud.local.processes import LOOPBACK, free_ports
from xmcloud.local.standins.containers import Processes
from xmcloud.local.standins.faults import Faults
from xmcloud.local.standins.vertex import serve_vertex

SECONDS = 30.0
PROJECT = "proj"
LOCATIONS = ("us-central1", "europe-west4")
SHELL = ("/bin/sh", "-c")


class Bench(ABC):
    """A platform whose jobs run on this machine, and what may go wrong there.

    Only the commands of images count: they are programs of this machine.
    """

    platform: Platform
    events: list[str]
    """What the platform told so far, as `Platform.event` reads it."""

    @abstractmethod
    def refuse_for_quota(self) -> None:
        """The next submission is one too many."""

    @abstractmethod
    def refuse(self) -> None:
        """The next submission is refused for good."""

    @abstractmethod
    def lose_request(self) -> None:
        """The next submission fails inside the platform and makes nothing."""

    @abstractmethod
    def lose_answer(self) -> None:
        """The next submission takes effect, though its caller is told of a failure."""

    @abstractmethod
    def fall_silent(self) -> None:
        """No call is answered any more."""

    @abstractmethod
    def hold(self) -> None:
        """What is submitted from now on does not start."""

    @abstractmethod
    def preempt(self, label: str) -> None:
        """The machines of the job with that label are taken away."""

    @abstractmethod
    def lose(self, label: str) -> None:
        """The platform breaks under the job with that label."""

    @abstractmethod
    def spot(self) -> PlatformOptions:
        """Options of a job whose machines may be taken away."""

    @abstractmethod
    def printed(self, name: str, job: int = 0) -> str:
        """What a job of the platform's job of that name has written: the first of its group."""


def one(script: str, *args: str, **environment: str) -> Job:
    """A job that runs a shell script."""
    return job("train", script, *args, **environment)


def job(name: str, script: str, *args: str, **environment: str) -> Job:
    definition = JobSpec(
        executable=Image(image="registry.example/train@sha256:1", command=SHELL),
        arguments=tuple(Argument(value=value) for value in (script, "sh", *args)),
        environment=environment,
    )
    return draft(definition).evolve(id=derived_id(name), name=name)


def group(*jobs: Job) -> list[Job]:
    members = tuple(Member(id=each.id, name=each.name) for each in jobs)
    return [each.evolve(group=members) for each in jobs]


def launch(label: str, *jobs: Job) -> Launch:
    return Launch(label, jobs, {each.id: {"ATTEMPT": "1"} for each in jobs})


async def ended(platform: Platform, name: str) -> PlatformJob:
    """The job, once it has ended."""
    async with asyncio.timeout(SECONDS):
        while True:
            told = await platform.get(name)
            assert told is not None
            if told.state.terminal:
                return told
            await asyncio.sleep(0.02)


class VertexBench(Bench):
    def __init__(self, platform: Platform, faults: Faults, logs: Path) -> None:
        self.platform = platform
        self.events = []
        self._faults = faults
        self._logs = logs

    async def told(self, body: str) -> None:
        self.events.append(body)

    def refuse_for_quota(self) -> None:
        self._change(quota=1)

    def refuse(self) -> None:
        self._change(refuse=1)

    def lose_request(self) -> None:
        self._change(fail_before=1)

    def lose_answer(self) -> None:
        self._change(fail_after=1)

    def fall_silent(self) -> None:
        self._change(unavailable=1_000_000)

    def hold(self) -> None:
        self._change(hold=True)

    def preempt(self, label: str) -> None:
        self._change(endings={label: "preempt"})

    def lose(self, label: str) -> None:
        self._change(endings={label: "break"})

    def spot(self) -> VertexOptions:
        return VertexOptions(spot=True)

    def printed(self, name: str, job: int = 0) -> str:
        return (self._logs / name.rpartition("/")[2] / f"workerpool{job}-0.log").read_text()

    def _change(self, **changes: object) -> None:
        self._faults.plan = self._faults.plan.evolve(**changes)


@asynccontextmanager
async def vertex(folder: Path) -> AsyncIterator[Bench]:
    [port] = free_ports(1)
    platform = VertexPlatform(
        PROJECT, LOCATIONS, "outputs", endpoint=f"{LOOPBACK}:{port}", deadline=0.5
    )
    faults, logs = Faults(), folder / "logs"
    bench = VertexBench(platform, faults, logs)
    buckets, emit = {"outputs": folder / "outputs"}, bench.told
    async with serve_vertex(port, PROJECT, LOCATIONS, buckets, logs, emit, faults, Processes()):
        yield bench
        await platform.close()


class MemoryBench(Bench):
    def __init__(self, platform: RunningPlatform) -> None:
        self.platform, self._memory = platform, platform
        self.events = platform.events

    def refuse_for_quota(self) -> None:
        self._memory.mishaps.quota = 1

    def refuse(self) -> None:
        self._memory.mishaps.refused = 1

    def lose_request(self) -> None:
        self._memory.mishaps.lost_requests = 1

    def lose_answer(self) -> None:
        self._memory.mishaps.lost_answers = 1

    def fall_silent(self) -> None:
        self._memory.mishaps.silent = True

    def hold(self) -> None:
        self._memory.held = True

    def preempt(self, label: str) -> None:
        self._end(label, PlatformState.PREEMPTED)

    def lose(self, label: str) -> None:
        self._end(label, PlatformState.BROKEN)

    def spot(self) -> VertexOptions:
        return VertexOptions(spot=True)

    def printed(self, name: str, job: int = 0) -> str:
        return self._memory.log(name, job).read_text()

    def _end(self, label: str, state: PlatformState) -> None:
        for name in self._memory.named(label):
            self._memory.becomes(name, state)


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Bench]:
    async with running_platform(folder / "logs") as platform:
        yield MemoryBench(platform)


BENCHES: dict[str, Callable[[Path], AbstractAsyncContextManager[Bench]]] = {
    "memory": memory,
    "vertex": vertex,
}
