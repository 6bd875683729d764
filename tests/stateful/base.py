"""What all rules share: the control plane, the ledger beside it, and how they are compared."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.stateful.broker import UnreliableQueue
from tests.stateful.draws import QUEUES
from tests.stateful.ledger import LEGAL, Ledger, check_history
from tests.stateful.worker import Worker
from tests.support.clock import ManualClock
from tests.support.planes import Rig
from xmcloud.core.control import sessions
from xmcloud.core.documents import JOBS
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import Query

T = TypeVar("T")


def number_sessions(patches: pytest.MonkeyPatch) -> None:
    """Their ids come in the order in which they are opened, so that a run can be repeated."""
    letters = str.maketrans("0189", "aghi")
    ids = (f"session{number:09}".translate(letters) for number in count())
    patches.setattr(sessions, "random_id", lambda: next(ids))


class Base(RuleBasedStateMachine):
    """After every step the store is read and compared with the ledger.

    `jobs` is what was read last, `freed` which of them have since been reset or enqueued.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.patches = pytest.MonkeyPatch()
        number_sessions(self.patches)
        self.clock = ManualClock()
        self.broker: UnreliableQueue | None = None
        self.rig = self.make_rig()
        self.plane = self.rig.plane
        self.ledger = Ledger()
        self.experiments: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.freed: set[str] = set()
        self.keys = (f"key-{number}" for number in count())
        self.workers = [
            Worker("ant", "local", QUEUES, 2, {"cpu": 2.0}),
            Worker("bee", "local", ("default",), 1, {"cpu": 1.0, "gpu": 1.0}),
            Worker("cat", "big", ("slow", "high", "default"), 3, {"cpu": 4.0, "gpu": 2.0}),
        ]

    def make_rig(self) -> Rig:
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.rig.close())
        self.runner.close()
        self.patches.undo()

    async def all_jobs(self) -> dict[str, Job]:
        page, _ = await JOBS.find(self.rig.store, Query("jobs", limit=400))
        return {stored.item.id: stored.item for stored in page}

    def waiting(self, queue: str) -> list[Job]:
        found = (j for j in self.jobs.values() if j.state is JobState.QUEUED and j.queue == queue)
        return sorted(found, key=lambda job: (job.position, job.id))

    def jobs_in(self, experiment: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.experiment_id == experiment]

    def some_job(self, data: st.DataObject, action: str = "") -> Job:
        """More often than not one that is in a state for the action."""
        legal = [id for id, job in sorted(self.jobs.items()) if job.state in LEGAL.get(action, ())]
        ids = st.sampled_from(sorted(self.jobs))
        return self.jobs[data.draw(st.sampled_from(legal) | ids if legal else ids, "job")]

    def some_experiment(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.experiments), "experiment")

    def some_worker(self, data: st.DataObject, among: Sequence[Worker] | None = None) -> Worker:
        """One that has a session, unless others are given."""
        there = [worker for worker in self.workers if worker.session is not None]
        return data.draw(st.sampled_from(there if among is None else among), "worker")

    @property
    def staffed(self) -> bool:
        return any(worker.session is not None for worker in self.workers)

    def check_histories(self) -> None:
        self.compare(self.run(self.all_jobs()))
        self.freed.clear()

    def compare(self, after: dict[str, Job]) -> None:
        for id, job in self.jobs.items():
            check_history(job, after[id], free=id in self.freed)
        self.jobs = after

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        self.look()
        self.check_units()
        self.check_permits()

    def look(self) -> None:
        """Reads the store; nothing in it is unexpected."""
        self.check_histories()
        for id, state in self.ledger.expected.items():
            assert self.jobs[id].state is state, f"{id} is {self.jobs[id].state}, not {state}"
        self.ledger.expected.clear()
        assert self.attempts() == self.ledger.holders
        assert {job.id for job in self.jobs.values() if job.stop} == set(self.ledger.stops)

    def attempts(self) -> dict[str, tuple[int, str]]:
        """The open ones."""
        return {
            job.id: (job.fence, job.attempt.session) for job in self.jobs.values() if job.attempt
        }

    def check_units(self) -> None:
        for experiment in self.experiments:
            numbers = sorted(job.unit for job in self.jobs_in(experiment))
            assert numbers == list(range(1, len(numbers) + 1))

    def check_permits(self) -> None:
        """Where the broker can be looked into."""
