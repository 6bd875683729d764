"""The control plane under everything that people, workers, brokers and time can do to it."""

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.stateful.broker import Copy, UnreliableQueue
from tests.stateful.draws import POOLS, QUEUES, batches
from tests.stateful.ledger import line
from tests.stateful.lines import Lines
from tests.stateful.misfortune import Deaths, Races
from tests.stateful.worker import Worker
from tests.support.planes import LEASE, Rig, emulated_rig, sqlite_rig
from xmcloud.core import lifecycle
from xmcloud.core.control import queues
from xmcloud.core.models import JobState, Outcome
from xmcloud.core.ports import Subscription
from xmcloud.core.protocol import NewQueue, NewUnits

AGES = timedelta(hours=2)
"""Longer than any permit is trusted and any session takes to settle."""


class Machine(Lines, Deaths, Races):
    """Rules act through the use cases; each says what must have come of it."""

    @initialize(
        requests=st.lists(batches, min_size=1, max_size=3), staff=st.sampled_from((7, 7, 3, 5, 6))
    )
    def begin(self, requests: list[NewUnits], staff: int) -> None:
        """`staff` has a bit for each worker that is there."""
        everything = [Subscription(f"queue-{q}", pool) for q in QUEUES for pool in POOLS]
        self.run(self.plane.queue.subscribe(everything))
        self.run(queues.create_queue(self.plane, NewQueue(name="slow", priority=1)))
        self.create_experiment("first")
        for request in requests:
            self.add(self.experiments[0], request)
        for index, worker in enumerate(self.workers):
            if staff & 1 << index:
                self.open(worker)

    def teardown(self) -> None:
        try:
            if self.experiments:
                self.heal()
        finally:
            super().teardown()

    def heal(self) -> None:
        """Time passes, the sweep runs, healthy workers come: then every queued job is run."""
        if self.broker is not None:
            self.broker.down = False
        for worker in self.workers:
            worker.crash()
        self.clock.advance(LEASE)
        self.sweep()
        self.look()
        self.clock.advance(AGES)
        helpers = self.helpers()
        self.sweep()
        self.look()
        busy = True
        while busy:
            busy = sum(self.heal_turn(helper) for helper in helpers) > 0
        for job in self.jobs.values():
            stuck = job.state.active or job.state is JobState.QUEUED
            assert not stuck or job.queue in self.ledger.paused, f"{job.id} is stranded: {job}"

    def helpers(self) -> list[Worker]:
        """One with room for everything in each pool, waiting for permits."""
        helpers = [
            Worker(f"healer-{pool}", pool, QUEUES, 4, {"cpu": 9.0, "gpu": 9.0}) for pool in POOLS
        ]
        for helper in helpers:
            self.open(helper)
            helper.hungry = False
        return helpers

    def heal_turn(self, helper: Worker) -> bool:
        busy = self.turn(helper)
        for job in list(helper.running.values()):
            self.exchange(helper, self.news("finished", job.id, job.fence, Outcome.COMPLETED))
            self.look()
        return busy


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """Where syncing costs nothing: no power is cut here."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


class SqliteMachine(Machine):
    """Over SQLite's store and queue."""

    def make_rig(self) -> Rig:
        self.folder = memory_folder()
        return sqlite_rig(Path(self.folder.name), self.clock)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


class UnreliableMachine(SqliteMachine):
    """The broker duplicates, reorders, delays and loses messages, and goes away.

    `owed` counts the permits that were lost since all were published again.
    """

    broker: UnreliableQueue

    def __init__(self) -> None:
        super().__init__()
        self.owed = 0

    def make_rig(self) -> Rig:
        self.folder = memory_folder()
        self.broker = UnreliableQueue(self.clock)
        return sqlite_rig(Path(self.folder.name), self.clock, self.broker)

    def some_copy(self, data: st.DataObject) -> Copy:
        indices = st.integers(0, len(self.broker.copies) - 1)
        return self.broker.copies[data.draw(indices, "message")]

    @precondition(lambda self: self.broker.copies)
    @rule(data=st.data(), what=st.sampled_from((1, 30, 600, "duplicate", "reorder")))
    def delay(self, data: st.DataObject, what: int | str) -> None:
        """By so many seconds; or brings it twice, or ahead of its turn."""
        copy = self.some_copy(data)
        if isinstance(what, int):
            self.broker.delay(copy, what)
        elif what == "duplicate":
            self.broker.duplicate(copy)
        else:
            self.broker.reorder(copy)

    @precondition(lambda self: self.broker.copies)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.broker.drop(self.some_copy(data))
        self.owed += 1

    @rule(down=st.booleans())
    def go_away(self, down: bool) -> None:
        self.broker.down = down

    @rule()
    def the_permits_are_published_again(self) -> None:
        """After so much time whatever was lost is made good."""
        self.clock.advance(AGES)
        self.sweep()
        if not self.broker.down:
            self.owed = 0

    def check_permits(self) -> None:
        """One for each job wherever it may run, unless the sweep will publish it soon."""
        soon = self.clock.now() + lifecycle.UNCONFIRMED
        for queue in QUEUES:
            for pool in POOLS:
                confirmed = [
                    job
                    for job in line(self.jobs.values(), queue, pool)
                    if job.waiting is not None and job.waiting.permit_due_at > soon
                ]
                there = self.broker.waiting(Subscription(f"queue-{queue}", pool))
                assert there + self.owed >= len(confirmed), f"no permit in {queue} for {pool}"


class EmulatedMachine(Machine):
    """Over the emulators, whose messages keep real time."""

    bucket: ClassVar[str]

    @staticmethod
    def project() -> str:
        """One that nobody used before."""
        raise NotImplementedError

    def make_rig(self) -> Rig:
        return emulated_rig(self.project(), self.bucket, self.clock)
