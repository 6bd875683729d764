"""A worker from its start to its end: one session after the other."""

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from datetime import datetime
from enum import Enum, auto
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Never, TypeVar

from xmcloud.core import trace
from xmcloud.core.clock import SystemClock
from xmcloud.core.errors import LeaseLost, XmcloudError
from xmcloud.core.models import Job, Session
from xmcloud.core.ports import Consumer
from xmcloud.core.version import VERSION
from xmcloud.core.worker_protocol import HOLDS_LIMIT, AttemptRef, Lease, OpenSession
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.attempts import Attempts
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import ApiClient, Refused
from xmcloud.worker.containers import Containers
from xmcloud.worker.control import Control
from xmcloud.worker.disk import Disk
from xmcloud.worker.environments import Environments
from xmcloud.worker.eviction import Room
from xmcloud.worker.foreground import Foreground
from xmcloud.worker.gate import Gate
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.gpus import GpuMeter
from xmcloud.worker.hours import Hours, keep_hours
from xmcloud.worker.leftovers import (
    attempt_of,
    beyond_recovery,
    only_one,
    recoverable,
    remove_containers,
    remove_leftovers,
    remove_old_checkpoints,
)
from xmcloud.worker.limits import MemoryUse, MemoryWatch
from xmcloud.worker.machine import Machine
from xmcloud.worker.orders import Fair, Order, Strict
from xmcloud.worker.output import Tail
from xmcloud.worker.permits import Permits
from xmcloud.worker.ports import own_address
from xmcloud.worker.preparation import Preparation, base_environment
from xmcloud.worker.process import Launcher
from xmcloud.worker.run import Attempt, Workshop
from xmcloud.worker.secrets import SecretValues
from xmcloud.worker.settings import WorkerSettings
from xmcloud.worker.slots import Allotment, Slots
from xmcloud.worker.statistics.sampler import Sampler
from xmcloud.worker.sync import Conversation
from xmcloud.worker.uploads import upload
from xmcloud.worker.wiring import consumer, tracer

_GOODBYE_SECONDS = 5.0

logger = logging.getLogger("xmcloud.worker")
Result = TypeVar("Result")


class Replaced(XmcloudError):
    """Another worker of that name was started, on another machine or with another home."""

    slug, title = "worker-replaced", "Another worker took the name"
    status: ClassVar[int] = 409

    def __init__(self, name: str, host: str) -> None:
        super().__init__(
            f"Another worker named {name!r} was started on {host or 'another machine'}.",
            "Start one of them with another --name.",
        )


class _End(Enum):
    LEASE_LOST = auto()
    LEFT = auto()


async def run_worker(settings: WorkerSettings) -> None:
    """Until SIGTERM or SIGINT: what runs then is stopped gracefully, at a second signal at once.

    Raises NameTaken, Replaced, and Refused when the control plane does not accept the worker.
    """
    async with _worker(settings) as worker:
        await worker.run()


def run_one(settings: WorkerSettings, job: str) -> int:
    """Run that job in the foreground, wherever it waits, under a name of its own.

    Returns the exit status of the job, 130 when it was given back and 143 when people stopped it.
    Raises as `run_worker`, and `Refused` for a job that cannot be run so.
    """
    own = settings.evolve(name=f"{settings.name[:46]}-run-{job[:8]}", slots=1)
    foreground = Foreground(sys.stdout.buffer)

    async def work() -> None:
        async with _worker(own, foreground) as worker:
            await worker.run(job)

    _run(work())
    shutil.rmtree(own.folder, ignore_errors=True)
    return foreground.exit_code


@asynccontextmanager
async def _worker(
    settings: WorkerSettings, foreground: Foreground | None = None
) -> AsyncIterator["Worker"]:
    trace.use(tracer())
    with only_one(settings.folder):
        containers = Containers(
            settings.container_host,
            settings.container_network,
            settings.gcs_root,
            settings.container_user,
        )
        with closing(containers):
            credentials = settings.identity().credentials
            async with ApiClient.to(settings.url, credentials) as client:
                yield Worker(settings, client, containers, foreground)


def run(settings: WorkerSettings) -> None:
    """`run_worker` in an event loop of its own, the faster one where it is installed."""
    _run(run_worker(settings))


def _run(work: Coroutine[Any, Any, None]) -> None:
    uvloop = import_module("uvloop") if find_spec("uvloop") else None
    factory = uvloop.new_event_loop if uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


class Worker:
    """What outlives a session: settings, connections, caches, and the wish to leave."""

    def __init__(
        self,
        settings: WorkerSettings,
        client: ApiClient,
        containers: Containers,
        foreground: Foreground | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._launcher = Launcher(settings.folder)
        self._machine = Machine.for_worker(settings)
        self._resources = settings.resources or self._machine.resources()
        self._containers = containers
        base = base_environment(os.environ)
        settings.cache.mkdir(parents=True, exist_ok=True)
        self._room = room = Room(settings.cache, settings.cache_limit_bytes)
        self._disk = Disk([settings.folder, settings.cache], settings.disk_floor_bytes)
        self._sampler = Sampler(SystemClock(), settings.cache, GpuMeter(self._machine.driver))
        self._secrets = SecretValues(client)
        self._workshop = Workshop(
            launcher=self._launcher,
            containers=containers,
            preparation=Preparation(
                BlobCache(settings.cache, client, room),
                Environments(settings.cache, cuda=self._machine.driver.cuda, room=room),
                containers,
                Revisions(settings.cache, Hosts(settings.git, os.environ), base),
                base,
            ),
            disk=self._disk,
            memory=MemoryWatch(MemoryUse()),
            sampler=self._sampler,
            store=partial(upload, client),
            secrets=self._secrets,
        )
        self._leave = asyncio.Event()
        self._hurry = asyncio.Event()
        self._gate = Gate()
        self._slots = Slots(settings.slots, self._resources, self._machine)
        self._attempts = Attempts(
            self._slots,
            _order(settings),
            self._gate,
            self._attempt,
            self._attempt_folder,
            self._leave.set,
            foreground,
        )
        self._foreground = foreground

    async def run(self, only: str | None = None) -> None:
        """Until it is to leave, or that job is over and nothing else was taken."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        permits = consumer(self._settings, self._client)
        checkpoints = self._settings.checkpoints_folder
        works: list[Coroutine[Any, Any, None]] = [
            self._sampler.run(),
            self._keep_hours(),
            remove_old_checkpoints(checkpoints, self._containers, time.time()),
        ]
        always = [asyncio.create_task(work) for work in works]
        if self._foreground is not None:
            always.append(asyncio.create_task(self._foreground.run()))
        if only is not None:
            self._attempts.want(only)
        try:
            earlier = await self._recoverable()
            while not self._leave.is_set():
                lease = await self._open([*earlier, *self._attempts.refs()])
                if lease is None:
                    break
                if await self._serve(lease, permits, earlier, only) is _End.LEFT:
                    return
                earlier = []
                await self._refuse_to_fight(lease)
        finally:
            await self._attempts.abandon("the worker ended")
            await self._launcher.close()
            await _cancelled(always)
            await permits.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _keep_hours(self) -> None:
        if self._settings.hours:
            await keep_hours(Hours.parse(self._settings.hours), self._gate, datetime.now)

    async def _recoverable(self) -> list[AttemptRef]:
        """What an earlier run of the worker began and may go on; of the rest nothing is left."""
        folder = self._settings.folder / "attempts"
        await self._clean(beyond_recovery(folder))
        found = [attempt_of(each) for each in recoverable(folder)]
        return [AttemptRef(job_id=job, fence=fence) for job, fence in found]

    async def _clean(self, folders: Sequence[Path]) -> None:
        removed = await remove_containers(folders, self._containers)
        killed = await remove_leftovers(folders)
        if removed or killed:
            logger.warning(
                "ended %d containers and %d processes of an earlier run", removed, killed
            )

    async def _refuse_to_fight(self, lost: Lease) -> None:
        """Taking the name back would kill the jobs of the other. Raises Replaced.

        What an earlier run of this worker asked for may have been answered late: such a session
        is never renewed.
        """
        loop = asyncio.get_running_loop()
        over = loop.time() + lost.lease_seconds
        other = await self._other(lost.session.id)
        while other is not None and loop.time() < over and not self._leave.is_set():
            if other.host == socket.gethostname():
                await self._unless_leaving(asyncio.sleep(lost.heartbeat_seconds / 2))
                seen, other = other, await self._other(lost.session.id)
                if other is None or other.renewed_at == seen.renewed_at:
                    continue
            raise Replaced(other.worker, other.host)

    async def _other(self, own: str) -> Session | None:
        """The newest session of this name but that one, whose end may not have been seen yet."""
        found = await self._unless_leaving(self._client.open_sessions())
        name = self._settings.name
        sessions = [s for s in found.sessions if s.worker == name and s.id != own] if found else []
        return max(sessions, key=lambda session: session.opened_at, default=None)

    async def _unless_leaving(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        task = asyncio.create_task(work)
        await _first([task], self._leave)
        if task.done():
            return task.result()
        await _cancelled([task])
        return None

    def _on_signal(self) -> None:
        if self._leave.is_set():
            logger.warning("killing what still runs")
            self._hurry.set()
        else:
            logger.info("stopping; a second signal kills what still runs")
            self._leave.set()

    async def _open(self, holds: Sequence[AttemptRef]) -> Lease | None:
        """A session; None when the worker is told to stop before it has one."""
        settings = self._settings
        request = OpenSession(
            pool=settings.pool,
            queues=settings.queues,
            slots=settings.slots,
            resources=self._resources,
            gpus=tuple(map(str, self._machine.gpus)),
            holds=tuple(holds[:HOLDS_LIMIT]),
            version=VERSION,
            host=socket.gethostname(),
            address=settings.address or await asyncio.to_thread(own_address, settings.url),
        )
        opening = self._client.open_session(settings.name, request)
        lease = await self._unless_leaving(opening)
        if lease is None:
            return None
        logger.info(
            "worker %s is ready: pool %s, queues %s, %d slots, at %s",
            settings.name,
            settings.pool,
            ", ".join(settings.queues),
            settings.slots,
            settings.url,
        )
        return lease

    async def _serve(
        self,
        lease: Lease,
        permits: Consumer,
        earlier: Sequence[AttemptRef],
        only: str | None,
    ) -> _End:
        """`earlier` are attempts of an earlier run of the worker, of which some may go on."""
        settings, attempts, slots = self._settings, self._attempts, self._slots
        conversation = Conversation(
            self._client, lease, attempts, self._sampler.machine_due, self._closed
        )
        tail = Tail(attempts.grown, conversation.wake)
        attempts.connect(conversation, tail)
        self._secrets.connect(lease.session.id)
        self._gate.tell = conversation.wake
        if not self._gate.is_open:
            conversation.wake()
        await attempts.keep(lease.held)
        if lease.held:
            conversation.watch_stops()  # the word may have been for an earlier session
        kept = {(held.job.id, held.job.fence) for held in lease.held}
        lost = [self._path(*key) for ref in earlier if (key := (ref.job_id, ref.fence)) not in kept]
        await self._clean(lost)
        filling = Permits(
            permits,
            conversation,
            slots,
            settings.queues,
            settings.pool,
            self._disk,
            self._room,
            self._gate,
        )
        talk = asyncio.create_task(conversation.run())
        loops = [
            asyncio.create_task(filling.run() if only is None else self._see(conversation)),
            asyncio.create_task(Control(permits, conversation, lease.session.id).run(slots.busy)),
            asyncio.create_task(tail.run(slots.busy)),
        ]
        try:
            await _first([talk, *loops], self._leave)
            for task in (talk, *loops):
                if task.done():
                    task.result()
            await _cancelled(loops[:1])
            told = await self._take_leave(attempts, talk)
        except LeaseLost as error:
            logger.warning("%s", error)
            return _End.LEFT if self._leave.is_set() else _End.LEASE_LOST
        finally:
            await _cancelled([talk, *loops])
        if told:
            with suppress(LeaseLost, Refused, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._client.close_session(lease.session.id)
        return _End.LEFT

    def _closed(self) -> str:
        return self._gate.reason or self._disk.shortage()

    async def _see(self, conversation: Conversation) -> None:
        """The one job from its claim to its end."""
        if not self._attempts.refs():
            await conversation.claim(self._settings.queues)
        await self._attempts.all_told()

    async def _take_leave(self, attempts: Attempts, talk: asyncio.Task[Never]) -> bool:
        """Whether everything was told. Raises `LeaseLost`."""
        leaving = asyncio.create_task(attempts.leave())
        await _first([leaving, talk], self._hurry)
        if self._hurry.is_set():
            await attempts.kill()
        telling = asyncio.create_task(attempts.all_told())
        await asyncio.wait({leaving, talk}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(
            {telling, talk}, timeout=_GOODBYE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if talk.done():
            talk.result()
        if not telling.done():
            logger.warning("left without telling the control plane: it does not answer")
        told = telling.done()
        await _cancelled([leaving, telling])
        return told

    def _attempt(self, job: Job, allotment: Allotment, on_start: Callable[[], None]) -> Attempt:
        return Attempt(job, self._attempt_folder(job), allotment, self._workshop, on_start)

    def _attempt_folder(self, job: Job) -> AttemptFolder:
        checkpoint = self._settings.checkpoints_folder / job.id
        return AttemptFolder(self._path(job.id, job.fence), checkpoint)

    def _path(self, job: str, fence: int) -> Path:
        return self._settings.folder / "attempts" / f"{job}-{fence}"


def _order(settings: WorkerSettings) -> Order:
    if settings.order == "fair":
        return Fair({queue: settings.weights.get(queue, 1) for queue in settings.queues})
    return Strict(settings.queues)


async def _first(tasks: Iterable[asyncio.Task[Any]], event: asyncio.Event) -> None:
    """Until one of the tasks ends or the event is set."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({*tasks, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
