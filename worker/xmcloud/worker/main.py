"""A worker from its start to its end: one session after the other."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterable
from contextlib import closing, suppress
from enum import Enum, auto
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Never, TypeVar

from xmcloud.core.errors import LeaseLost, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.ports import Consumer
from xmcloud.core.worker_protocol import Lease, OpenSession
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.attempts import Attempts
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import ApiClient, Refused
from xmcloud.worker.containers import Containers
from xmcloud.worker.control import Control
from xmcloud.worker.disk import Disk
from xmcloud.worker.environments import Environments
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.leftovers import only_one, remove_containers, remove_leftovers
from xmcloud.worker.output import Tail
from xmcloud.worker.permits import Permits
from xmcloud.worker.ports import own_address
from xmcloud.worker.preparation import Preparation, base_environment
from xmcloud.worker.process import Launcher
from xmcloud.worker.run import Attempt
from xmcloud.worker.settings import WorkerSettings
from xmcloud.worker.slots import Slots, machine_resources
from xmcloud.worker.sync import Conversation
from xmcloud.worker.wiring import consumer

_GOODBYE_SECONDS = 5.0

logger = logging.getLogger("xmcloud.worker")
Result = TypeVar("Result")


class Replaced(XmcloudError):
    """Another worker of that name was started, on another machine or with another home."""

    slug, title = "worker-replaced", "Another worker took the name"

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
    with only_one(settings.folder):
        containers = Containers(
            settings.container_host, settings.container_network, settings.gcs_root
        )
        with closing(containers):
            await _clean(settings.folder / "attempts", containers)
            token = settings.token.get_secret_value()
            async with ApiClient.to(settings.url, token) as client:
                await Worker(settings, client, containers).run()


async def _clean(attempts: Path, containers: Containers) -> None:
    removed = await remove_containers(attempts, containers)
    killed = await remove_leftovers(attempts)
    if removed or killed:
        logger.warning(
            "ended %d containers and %d processes that an earlier run left behind", removed, killed
        )


def run(settings: WorkerSettings) -> None:
    """`run_worker` in an event loop of its own, the faster one where it is installed."""
    uvloop = import_module("uvloop") if find_spec("uvloop") else None
    factory = uvloop.new_event_loop if uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run_worker(settings))


class Worker:
    """What outlives a session: settings, connections, caches, and the wish to leave."""

    def __init__(self, settings: WorkerSettings, client: ApiClient, containers: Containers) -> None:
        self._settings = settings
        self._client = client
        self._launcher = Launcher()
        self._resources = settings.resources or machine_resources()
        self._containers = containers
        base = base_environment(os.environ)
        self._preparation = Preparation(
            BlobCache(settings.cache, client),
            Environments(settings.cache),
            containers,
            Revisions(settings.cache, Hosts(settings.git, os.environ), base),
            base,
        )
        self._leave = asyncio.Event()
        self._hurry = asyncio.Event()
        settings.cache.mkdir(parents=True, exist_ok=True)
        self._disk = Disk([settings.folder, settings.cache], settings.disk_floor_bytes)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        permits = consumer(self._settings, self._client)
        try:
            while not self._leave.is_set():
                lease = await self._open()
                if lease is None or await self._serve(lease, permits) is _End.LEFT:
                    return
                await self._refuse_to_fight()
        finally:
            await permits.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _refuse_to_fight(self) -> None:
        """Taking the name back would kill the jobs of the other. Raises Replaced."""
        found = await self._unless_leaving(self._client.open_sessions())
        for session in found.sessions if found else ():
            if session.worker == self._settings.name:
                raise Replaced(session.worker, session.host)

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

    async def _open(self) -> Lease | None:
        """A session; None when the worker is told to stop before it has one."""
        settings = self._settings
        request = OpenSession(
            pool=settings.pool,
            queues=settings.queues,
            slots=settings.slots,
            resources=self._resources,
            version=version("xmcloud"),
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

    async def _serve(self, lease: Lease, permits: Consumer) -> _End:
        settings = self._settings
        slots = Slots(settings.slots, self._resources)
        attempts = Attempts(slots, settings.queues, self._attempt)
        conversation = Conversation(self._client, lease, attempts)
        tail = Tail(attempts.grown, conversation.wake, self._launcher.collect)
        attempts.connect(conversation, tail)
        filling = Permits(permits, conversation, slots, settings.queues, settings.pool, self._disk)
        talk = asyncio.create_task(conversation.run())
        loops = [
            asyncio.create_task(filling.run()),
            asyncio.create_task(Control(permits, conversation, lease.session.id).run(slots.busy)),
            asyncio.create_task(tail.run(slots.busy)),
        ]
        try:
            await _first([talk, *loops], self._leave)
            for task in (talk, *loops):
                if task.done():
                    task.result()
            await _cancelled(loops[:1])
            await self._take_leave(attempts, talk)
        except LeaseLost as error:
            logger.warning("%s", error)
            await attempts.abandon(error.detail)
            return _End.LEFT if self._leave.is_set() else _End.LEASE_LOST
        finally:
            await _cancelled([talk, *loops])
            await attempts.abandon("the worker ended")
        with suppress(LeaseLost, Refused, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._client.close_session(lease.session.id)
        return _End.LEFT

    async def _take_leave(self, attempts: Attempts, talk: asyncio.Task[Never]) -> None:
        """Raises `LeaseLost`."""
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
        await _cancelled([leaving, telling])

    def _attempt(self, job: Job, on_start: Callable[[], None]) -> Attempt:
        path = self._settings.folder / "attempts" / f"{job.id}-{job.fence}"
        folder = AttemptFolder(path, self._settings.checkpoints_folder / job.id)
        return Attempt(
            job,
            folder,
            self._launcher,
            self._containers,
            self._preparation,
            self._disk,
            on_start,
        )


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
