"""What people, workers and a platform do in the machine of groups and targets."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from tests.stateful.base import number_sessions
from tests.stateful.draws import outcomes
from tests.stateful.keeper import Keeper
from tests.stateful.ledger import LEGAL
from tests.stateful.machine import memory_folder
from tests.stateful.watched import Watch, WatchedStore
from tests.stateful.worker import exchange, settle
from tests.support.clock import ManualClock
from tests.support.planes import sqlite_rig
from tests.support.platform import MemoryPlatform
from xmcloud.core.control import experiments, jobs, sessions, sweep
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.observing import platform_event
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sync import attempt_reports
from xmcloud.core.errors import LeaseLost, XmcloudError
from xmcloud.core.models import Job, Outcome, Reason, ReasonCode
from xmcloud.core.platforms import PlatformState
from xmcloud.core.protocol import Act, Enqueue, NewUnits, Stop
from xmcloud.core.worker_protocol import Finished

T = TypeVar("T")
Deed = Callable[[], Coroutine[Any, Any, object]]

LIMIT = 3
"""Of the target: one group of the largest."""

ENDS = (
    PlatformState.SUCCEEDED,
    PlatformState.FAILED,
    PlatformState.PREEMPTED,
    PlatformState.PREEMPTED,
    PlatformState.BROKEN,
    PlatformState.CANCELLED,
)


class Killed(Exception):
    """The process of the control plane ends between two operations."""


class Deeds(RuleBasedStateMachine):
    """What may be done; each may fail as an API may, and be raced with or cut short."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.patches = pytest.MonkeyPatch()
        number_sessions(self.patches)
        self.folder = memory_folder()
        self.clock = ManualClock()
        self.rig = sqlite_rig(Path(self.folder.name), self.clock)
        self.watch, self.platform = Watch(), MemoryPlatform()
        self.platform.mishaps.before = self.rig.recording.note
        self.plane = replace(
            self.rig.plane,
            store=WatchedStore(self.rig.store, self.rig.recording, self.watch),
            targets={"cloud": Target(self.platform, LIMIT, per_minute=60)},
        )
        self.keys = (f"key-{number}" for number in count())
        self.experiment = ""
        self.jobs: dict[str, Job] = {}
        self.freed: set[str] = set()
        self.launches = 0
        self.workers = [
            Keeper("ant", "local", ("default",), 1, {"cpu": 1.0}),
            Keeper("bee", "local", ("default",), 1, {"cpu": 1.0, "gpu": 1.0}),
            Keeper("cat", "local", ("default",), 2, {"cpu": 2.0, "gpu": 1.0}),
        ]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def add(self, units: NewUnits) -> None:
        await experiments.add_units(self.plane, self.experiment, units, next(self.keys))

    async def opens(self, worker: Keeper) -> None:
        lease = await sessions.open_session(self.plane, worker.name, worker.request)
        worker.crash()
        worker.session = lease.session.id

    async def turn(self, worker: Keeper, lost: bool = False) -> bool:
        """What is new for it, and what it may have for its free slots; was there anything?"""
        try:
            if worker.in_doubt or worker.places:
                await self.asks(worker)
            claim = worker.claim()
            deliveries = await worker.pull(self.plane) if claim and not worker.hungry else []
            if claim is None or not (deliveries or worker.hungry):
                return False
            worker.in_doubt = True
            request = worker.sync(claim=claim).evolve(known=None)
            answer = await exchange(self.plane, worker, request)
            if not lost:
                worker.heard(answer, self.clock.now())
                await settle(self.plane, deliveries, worker.left_over(answer), 10)
        except LeaseLost:
            worker.crash()
        return True

    async def asks(self, worker: Keeper, *reports: Finished) -> None:
        answer = await exchange(self.plane, worker, worker.question(*reports))
        worker.heard(answer, self.clock.now())
        for report in reports:
            worker.gave_back(report.job_id)

    async def ends(self, worker: Keeper, id: str, outcome: Outcome) -> None:
        if id not in worker.running:
            return
        reason = Reason(code=ReasonCode.EXITED, message="it ended")
        fence = worker.running[id].fence
        report = Finished(job_id=id, fence=fence, outcome=outcome, reason=reason)
        worker.in_doubt = True
        try:
            await self.asks(worker, report)
        except LeaseLost:
            worker.crash()

    async def leaves(self, worker: Keeper) -> None:
        session = str(worker.session)
        worker.crash()
        await sessions.close_session(self.plane, session)

    async def stops(self, job: Job) -> None:
        await jobs.stop_job(self.plane, job.id, Stop())

    async def dequeues(self, job: Job) -> None:
        await jobs.dequeue_job(self.plane, job.id, Act())

    async def enqueues(self, job: Job) -> None:
        self.freed.update(job.members)
        await jobs.enqueue_job(self.plane, job.id, Enqueue())

    async def resets(self, job: Job) -> None:
        self.freed.update(job.members)
        await jobs.reset_job(self.plane, job.id, Act())

    async def dispatches(self) -> None:
        await dispatch(self.plane, "cloud")

    async def sweeps(self) -> None:
        await sweep.sweep(self.plane)

    async def becomes(self, name: str, state: PlatformState, events: int = 1) -> None:
        event = self.platform.becomes(name, state)
        for _ in range(events):
            await platform_event(self.plane, event)

    async def tells(self, name: str, outcome: Outcome) -> None:
        """The process of a job of the target tells its end, and ends."""
        launch = self.platform.launches[name]
        job = launch.jobs[0]
        reason = Reason(code=ReasonCode.EXITED, message="it ended")
        report = Finished(job_id=job.id, fence=job.fence, outcome=outcome, reason=reason)
        well = outcome is Outcome.COMPLETED
        self.platform.becomes(name, PlatformState.SUCCEEDED if well else PlatformState.FAILED)
        await attempt_reports(self.plane, job.id, job.fence, [report])

    def deeds(self, data: st.DataObject) -> list[Deed]:
        """What may be done now."""
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)), "job")]
        found: list[Deed] = [
            self.dispatches,
            self.sweeps,
            lambda: self.stops(job),
            lambda: self.dequeues(job),
        ]
        if job.state in LEGAL["enqueue"]:
            found.append(lambda: self.enqueues(job))
        if there := [worker for worker in self.workers if worker.session]:
            worker = data.draw(st.sampled_from(there), "worker")
            found += [
                lambda: self.alone(worker, self.turn(worker)),
                lambda: self.alone(worker, self.leaves(worker)),
            ]
            if worker.running:
                id, outcome = min(worker.running), data.draw(outcomes)
                found.append(lambda: self.alone(worker, self.ends(worker, id, outcome)))
        if live := self.platform.live():
            name, state = live[0], data.draw(st.sampled_from(ENDS))
            found.append(lambda: self.becomes(name, state))
        return found

    async def alone(self, worker: Keeper, work: Coroutine[Any, Any, object]) -> None:
        """A worker does one thing at a time."""
        if worker.busy or worker.session is None:
            work.close()
            return
        worker.busy = True
        try:
            await work
        finally:
            worker.busy = False

    def do(self, deed: Deed) -> None:
        async def done() -> None:
            with suppress(Killed, XmcloudError):
                await deed()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        self.run(done())
        self.rig.recording.reset()
