"""One attempt: prepare, start, watch, tell."""

import asyncio
import errno
import json
import logging
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import psutil
from pydantic import JsonValue

from xmcloud.core.models import Job, Outcome, ReasonCode
from xmcloud.core.protocol import Problem
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.container_plan import ContainerPlan
from xmcloud.worker.containers import Containers
from xmcloud.worker.disk import Disk, DiskFull, noticing_full_disk
from xmcloud.worker.identity import mark
from xmcloud.worker.news import Ending, News
from xmcloud.worker.preparation import Plan, Preparation
from xmcloud.worker.process import Launcher, Process
from xmcloud.worker.reasons import UnusableResults, ending, exited, read_results
from xmcloud.worker.running import Running, Vanished
from xmcloud.worker.setup import SetupFailed
from xmcloud.worker.steps import Steps

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


class Attempt:
    """A claimed job on this machine, with a folder of its own until its end was taken."""

    def __init__(
        self,
        job: Job,
        folder: AttemptFolder,
        launcher: Launcher,
        containers: Containers,
        preparation: Preparation,
        disk: Disk,
        on_start: Callable[[], None],
    ) -> None:
        self.job = job
        self.key = job.id, job.fence
        self.title = f"{job.experiment_id}/{job.unit} {job.name!r} (attempt {job.fence})"
        self._folder = folder
        self.news = News(job.id, job.fence, folder.log, self._refused)
        self._launcher = launcher
        self._containers = containers
        self._preparation = preparation
        self._step = Steps(launcher, folder.path, mark(*self.key), preparation.base)
        self._disk = disk
        self._on_start = on_start
        self._stopping: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        self._running: Running | None = None
        self._killed = False

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
        try:
            with noticing_full_disk():
                self._folder.make()
                plan = await self._unless_stopped(
                    self._preparation.plan(self.job, self._folder, self._step)
                )
                running = await self._start(plan)
        except _Stopped:
            return self._stopped()
        except SetupFailed as error:
            return ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, str(error))
        except DiskFull as error:
            self._disk.ran_full()
            return ending(Outcome.RELEASED, ReasonCode.DISK_FULL, f"while preparing: {error}")
        except OSError as error:
            return ending(Outcome.FAILED, ReasonCode.SETUP_FAILED, f"Cannot prepare: {error}.")
        try:
            return await self._watch(running)
        except Vanished as error:
            return ending(Outcome.RELEASED, ReasonCode.LOST_WORKER, str(error))

    async def clean_up(self) -> None:
        """Remove what it left on disk."""
        if isinstance(self._running, Process) and not (self._folder.path / "work").exists():
            shutil.rmtree(self._folder.path, ignore_errors=True)
        else:
            await asyncio.to_thread(shutil.rmtree, self._folder.path, ignore_errors=True)

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
            self._running = await self._containers.start(plan)
        else:
            self._running = self._launch(plan)
        self.news.started(datetime.now(UTC))
        self._on_start()
        return self._running

    def _launch(self, plan: Plan) -> Process:
        try:
            process = self._spawn(plan)
        except OSError as error:
            raise SetupFailed(_cannot_start(plan, error)) from error
        self._remember(process)
        return process

    def _spawn(self, plan: Plan) -> Process:
        return self._launcher.spawn(
            plan.argv,
            directory=plan.directory,
            environment=plan.environment,
            mark=mark(*self.key),
            log=self._folder.log,
            executable=plan.executable,
        )

    def _remember(self, process: Process) -> None:
        """For the next run of the worker, should this one end without a word."""
        try:
            record = {"pid": process.pid, "created": psutil.Process(process.pid).create_time()}
        except psutil.NoSuchProcess:
            return
        (self._folder.path / "process.json").write_text(json.dumps(record))

    async def _watch(self, running: Running) -> Ending:
        limits = self.job.spec.limits
        exit_code = asyncio.ensure_future(running.wait())
        waiting: set[asyncio.Future[Any]] = {exit_code, self._stopping}
        await asyncio.wait(
            waiting, timeout=limits.runtime_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        by_itself = exit_code.done()
        if not by_itself:
            asked = self._stopping.done()
            grace = self._stopping.result().grace_seconds if asked else limits.grace_seconds
            await running.end(0 if self._killed else grace)
        code = await exit_code
        await running.bury(limits.grace_seconds)
        if by_itself:
            return exited(code, self.news.last_lines(), self._results(), running.note)
        if self._stopping.done():
            return self._stopped()
        message = f"timed out after {limits.runtime_seconds:g} s\n{self.news.last_lines()}"
        return ending(Outcome.FAILED, ReasonCode.TIMED_OUT, message.strip())

    def _results(self) -> dict[str, JsonValue]:
        try:
            return read_results(self._folder.results)
        except UnusableResults as error:
            with self._folder.log.open("a", encoding="utf-8") as log:
                log.write(f"xmcloud: the file of results is ignored: {error}\n")
            return {}

    def _stopped(self) -> Ending:
        stop = self._stopping.result()
        return ending(stop.outcome, stop.code, stop.message)

    def _refused(self, problem: Problem) -> None:
        if self._stopping.done():
            return
        logger.warning("gave up %s: %s", self.title, problem.detail)
        self.stop(Stop(Outcome.RELEASED, ReasonCode.LOST_WORKER, problem.detail, 0))


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
