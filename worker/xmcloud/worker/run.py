"""One attempt: prepare, start, watch, tell."""

import asyncio
import errno
import logging
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from pydantic import JsonValue

from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Execution, Job, JobState, Outcome, ReasonCode
from xmcloud.core.protocol import Problem
from xmcloud.core.specs import Image
from xmcloud.core.trace import span, traceparent
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.client import Refused
from xmcloud.worker.container_plan import ContainerPlan
from xmcloud.worker.containers import Containers
from xmcloud.worker.disk import Disk, DiskFull, noticing_full_disk
from xmcloud.worker.eviction import Lease
from xmcloud.worker.identity import mark
from xmcloud.worker.limits import MemoryWatch
from xmcloud.worker.machine import oom_kills
from xmcloud.worker.news import Ending, News
from xmcloud.worker.outputs import HERE, Store, collect, in_container
from xmcloud.worker.preparation import Plan, Preparation
from xmcloud.worker.process import Launcher, Process
from xmcloud.worker.reasons import UnusableResults, ending, exited, read_results
from xmcloud.worker.records import EXIT
from xmcloud.worker.redaction import NOTHING_SECRET, Blindfold, Redactor
from xmcloud.worker.running import Running, Vanished
from xmcloud.worker.secrets import SecretValues, remember
from xmcloud.worker.setup import SetupFailed
from xmcloud.worker.slots import Allotment
from xmcloud.worker.statistics.sampler import Sampler
from xmcloud.worker.steps import Steps

_LAST_SECONDS = 5.0

logger = logging.getLogger("xmcloud.worker")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Stop:
    """Why an attempt is ended from outside, and how long its processes have for it."""

    outcome: Outcome
    code: ReasonCode
    message: str
    grace_seconds: float


class _Stopped(Exception):
    """The attempt was stopped before its process started."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What the attempts of a worker share."""

    launcher: Launcher
    containers: Containers
    preparation: Preparation
    disk: Disk
    memory: MemoryWatch
    sampler: Sampler
    store: Store
    secrets: SecretValues


class Attempt:
    """A claimed job on this machine, with a folder of its own until its end was taken."""

    def __init__(
        self,
        job: Job,
        folder: AttemptFolder,
        allotment: Allotment,
        workshop: Workshop,
        on_start: Callable[[], None],
    ) -> None:
        self.job = job
        self.key = job.id, job.fence
        self.title = f"{job.experiment_id}/{job.unit} {job.name!r} (attempt {job.fence})"
        self.folder = folder
        self.news = News(job.id, job.fence, folder.log, self._refused, trace=job.trace)
        if job.spec.secrets:
            self.news.log.hold()
        self._allotment = allotment
        self._shop = workshop
        base = workshop.preparation.base
        self._step = Steps(workshop.launcher, folder.path, mark(*self.key), base)
        self._on_start = on_start
        self._stopping: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        self._running: Running | None = None
        self._lease: Lease | None = None
        self._killed = self._was_told = False

    def stop(self, stop: Stop) -> None:
        """End it, once: what came first counts. Without grace, processes are killed at once."""
        if not self._stopping.done():
            self._stopping.set_result(stop)

    async def kill(self) -> None:
        """End its processes now, whatever grace they were given."""
        self._killed = True
        if self._running is not None:
            await self._running.end(0)

    async def run(self) -> Ending:
        """Until nothing of it runs any more."""
        self.news.mask_with(NOTHING_SECRET)  # it was not told any
        try:
            with noticing_full_disk():
                running = await self._prepared()
        except _Stopped:
            return self._stopped()
        except SetupFailed as error:
            return ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, str(error))
        except DiskFull as error:
            self._shop.disk.ran_full()
            return ending(Outcome.RELEASED, ReasonCode.DISK_FULL, f"while preparing: {error}")
        except OSError as error:
            return ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, f"Cannot prepare: {error}.")
        except Vanished as error:
            return ending(Outcome.RELEASED, ReasonCode.LOST_WORKER, str(error))
        return await self._until_over(running)

    async def resume(self, output: int) -> Ending:
        """As `run`, of an attempt that an earlier run of this worker began.

        `output` are the bytes of its log that the control plane has.
        """
        self.news.go_on(output)
        if self.job.spec.secrets:
            await self._know_secrets_again()
        if (ended := self.news.saved_ending()) is not None:
            self._was_told = True
            return ended
        if self.job.state is JobState.STARTING:
            self.news.started(datetime.now(UTC))
        gone = ending(
            Outcome.RELEASED,
            ReasonCode.LOST_WORKER,
            "what it ran had gone when the worker came back",
        )
        try:
            # First: what no process of the attempt is known for ends all that carry its mark.
            container = await self._shop.containers.adopt(*self.key, self.folder)
            running = container or await self._shop.launcher.adopt(
                self.folder.path, mark(*self.key)
            )
        except Vanished as error:
            return ending(Outcome.RELEASED, ReasonCode.LOST_WORKER, str(error))
        if running is None:
            return gone
        self._running = running
        return await self._until_over(running)

    def told(self, end: Ending) -> Ending:
        """How it ended, as it may be told; nothing writes to its log any more."""
        log = self.news.log
        log.whole = True
        if self._was_told:
            return end
        reason = end.reason.evolve(message=log.text(end.reason.message))
        return Ending(end.outcome, reason, log.json(end.results))

    async def clean_up(self, outcome: Outcome | None) -> None:
        """Remove what it left on disk; None: its end did not count, and the next may run already.

        A checkpoint stays for the next attempt, if one may come.
        """
        if outcome is not None:
            with suppress(OSError):  # it is not empty
                self.folder.checkpoint.rmdir()
        if outcome is Outcome.COMPLETED and self.folder.checkpoint.exists():
            await self._shop.containers.delete(self.folder.checkpoint, self._image())
        if isinstance(self._running, Process) and not (self.folder.path / "work").exists():
            shutil.rmtree(self.folder.path, ignore_errors=True)
        else:
            await self._shop.containers.delete(self.folder.path)

    def _image(self) -> str:
        executable = self.job.spec.executable
        return executable.image if isinstance(executable, Image) else ""

    async def _prepared(self) -> Running:
        if self._allotment.lacking:
            raise SetupFailed(self._allotment.lacking)
        self.folder.make()
        self._allotment.remember(self.folder.allotment)
        job = self.job.evolve(trace=traceparent())
        with span("prepare"):
            plan = await self._unless_stopped(
                self._shop.preparation.plan(job, self.folder, self._allotment, self._step)
            )
        return await self._start(plan.given(await self._unless_stopped(self._secrets())))

    async def _secrets(self) -> Mapping[str, str]:
        """Variables whose values no log shows from now on. Raises `SetupFailed` and OSError."""
        if not self.job.spec.secrets:
            return {}
        try:
            values = await self._shop.secrets.of(self.job)
        except Refused as error:
            raise SetupFailed(f"Cannot get the secrets of this job: {error}") from error
        await remember(values, self.folder.fingerprint)
        self.news.mask_with(Redactor(values.values()))
        return values

    async def _know_secrets_again(self) -> None:
        """Its output is held meanwhile; what cannot be known in time is masked altogether."""
        redactor = self._shop.secrets.redactor_again(self.job, self.folder.fingerprint)
        asking = asyncio.create_task(redactor)
        closed = asyncio.create_task(self.news.closed.wait())
        over: set[asyncio.Future[Any]] = {asking, closed}
        await asyncio.wait({*over, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(over, timeout=_LAST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        found = asking.result() if asking.done() else Blindfold()
        if isinstance(found, Blindfold):
            logger.warning("masks all output of %s: its secrets cannot be known again", self.title)
        self.news.mask_with(found)
        for task in (asking, closed):
            task.cancel()

    async def _until_over(self, running: Running) -> Ending:
        pids = partial(_pids, running)
        gpus = [gpu.index for gpu in self._allotment.gpus]
        self._shop.sampler.watch(self.key, pids, self.news.measured, gpus)
        try:
            with span("run"):
                ended = await self._watch(running)
        except Vanished as error:
            return ending(Outcome.RELEASED, ReasonCode.LOST_WORKER, str(error))
        finally:
            self._shop.sampler.forget(self.key)
            if self._lease is not None:
                self._lease.release()
        return await self._with_outputs(ended, isinstance(running, Process))

    async def _unless_stopped(self, work: Awaitable[Result]) -> Result:
        task = asyncio.ensure_future(work)
        waiting: set[asyncio.Future[Any]] = {task, self._stopping}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if self._stopping.done():
            raise _Stopped
        return task.result()

    async def _start(self, plan: Plan | ContainerPlan) -> Running:
        if isinstance(plan, ContainerPlan):
            execution = Execution(
                argv=Execution.command(plan.argv),
                directory=plan.image.directory,
                code=plan.image.digest,
            )
            self._running = await self._shop.containers.start(plan)
        else:
            execution = plan.execution
            self._lease = plan.lease
            self._running = await self._launch(plan)
        gpus = tuple(map(str, self._allotment.gpus))
        here = execution.evolve(host=socket.gethostname(), gpus=gpus)
        self.news.started(datetime.now(UTC), here)
        self._on_start()
        return self._running

    async def _launch(self, plan: Plan) -> Process:
        try:
            return await self._spawn(plan)
        except OSError as error:
            raise SetupFailed(_cannot_start(plan, error)) from error

    async def _spawn(self, plan: Plan) -> Process:
        return await self._shop.launcher.spawn(
            plan.argv,
            directory=plan.directory,
            environment=plan.environment,
            mark=mark(*self.key),
            log=self.folder.log,
            executable=plan.executable,
            exit_file=self.folder.path / EXIT,
            cpus=self._allotment.cpus,
        )

    async def _watch(self, running: Running) -> Ending:
        limits, kills = self.job.spec.limits, oom_kills()
        exit_code = asyncio.ensure_future(running.wait())
        too_much = asyncio.ensure_future(self._too_much_memory(running))
        waiting: set[asyncio.Future[Any]] = {exit_code, too_much, self._stopping}
        await asyncio.wait(
            waiting, timeout=self._runtime_left(), return_when=asyncio.FIRST_COMPLETED
        )
        by_itself = exit_code.done()
        over = "" if by_itself or not too_much.done() else too_much.result()
        too_much.cancel()
        if not by_itself:
            asked = self._stopping.done()
            grace = self._stopping.result().grace_seconds if asked else limits.grace_seconds
            await running.end(0 if self._killed else grace)
        code = await exit_code
        await running.bury(limits.grace_seconds)
        if by_itself:
            memory = running.out_of_memory or oom_kills() > kills
            last = self.news.last_lines()
            note = running.note or (self._shop.disk.shortage() if code else "")
            return exited(code, last, self._results(), note, out_of_memory=memory)
        if self._stopping.done():
            return self._stopped()
        if over:
            return self._failed(ReasonCode.OUT_OF_MEMORY, over)
        return self._failed(ReasonCode.TIMED_OUT, f"timed out after {limits.runtime_seconds:g} s")

    async def _too_much_memory(self, running: Running) -> str:
        """Why it has to end. Containers have a limit of their own."""
        if not isinstance(running, Process):
            never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await never
        return await self._shop.memory.exceeded(running.pid, self.job.spec.resources)

    def _failed(self, code: ReasonCode, why: str) -> Ending:
        return ending(Outcome.FAILED, code, f"{why}\n{self.news.last_lines()}".strip())

    async def _with_outputs(self, ended: Ending, is_process: bool) -> Ending:
        """With what it left behind, and the list of its packages, stored.

        Not of one that is given back, or that nobody wants to hear of any more.
        """
        if ended.outcome is Outcome.RELEASED:
            return ended
        storing = asyncio.create_task(self._store(ended.results, is_process))
        closed = asyncio.create_task(self.news.closed.wait())
        await asyncio.wait({storing, closed}, return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        if not storing.done():
            storing.cancel()
            await asyncio.wait({storing})
            return ended
        return replace(ended, results=storing.result())

    async def _store(self, results: dict[str, JsonValue], is_process: bool) -> dict[str, JsonValue]:
        places = HERE if is_process else in_container(self.folder.shared)
        masked = self.news.log.json
        found = await collect(
            self.folder.outputs, results, self._shop.store, self._say, places, masked
        )
        try:
            if self.folder.packages.exists():
                await self._shop.store(self.folder.packages)
        except (OSError, XmcloudError) as error:
            self._say(f"the list of its packages is not stored: {error}")
        return found

    def _runtime_left(self) -> float | None:
        """Seconds; an attempt that went on under another worker process has used some."""
        limit, attempt = self.job.spec.limits.runtime_seconds, self.job.attempt
        if limit is None or attempt is None or attempt.started_at is None:
            return limit
        return max(0.0, limit - (datetime.now(UTC) - attempt.started_at).total_seconds())

    def _results(self) -> dict[str, JsonValue]:
        try:
            return read_results(self.folder.results)
        except UnusableResults as error:
            self._say(f"the file of results is ignored: {error}")
            return {}

    def _say(self, text: str) -> None:
        """A line in its log."""
        with self.folder.log.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"xmcloud: {text}\n")

    def _stopped(self) -> Ending:
        stop = self._stopping.result()
        return ending(stop.outcome, stop.code, stop.message)

    def _refused(self, problem: Problem) -> None:
        if self._stopping.done():
            return
        logger.warning("gave up %s: %s", self.title, problem.detail)
        self.stop(Stop(Outcome.RELEASED, ReasonCode.LOST_WORKER, problem.detail, 0))


def _pids(running: Running) -> list[int]:
    return [running.pid] if isinstance(running, Process) else []


def _cannot_start(plan: Plan, error: OSError) -> str:
    name = plan.argv[0]
    if error.filename == str(plan.directory):
        return f"Cannot enter the working directory {plan.directory}: {error.strerror}."
    if error.errno == errno.ENOENT:
        return (
            f"Cannot start {name!r}: this machine has no such program, or not the interpreter"
            " that its first line names. Install it, or give its full path."
        )
    if error.errno == errno.EACCES:
        return f"Cannot start {name!r}: it is not executable. Try `chmod +x` on the file."
    if error.errno == errno.ENOEXEC:
        return f"Cannot start {name!r}: no program for this machine, and no `#!` in its first line."
    if error.errno == errno.E2BIG:
        return (
            f"Cannot start {name!r}: its arguments and environment are longer than this system"
            " allows. Pass long values through a file."
        )
    return f"Cannot start {name!r}: {error.strerror}."
