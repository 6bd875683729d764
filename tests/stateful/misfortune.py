"""The control plane dies between two operations, and requests race with each other."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.draws import QUEUES, outcomes
from tests.stateful.ledger import LEGAL
from tests.stateful.passage import Passage
from tests.stateful.staff import Staff
from tests.stateful.worker import Worker, exchange
from tests.support.builders import spec, units
from xmcloud.core import queries
from xmcloud.core.control import experiments, jobs, sessions, sweep
from xmcloud.core.documents import SESSIONS
from xmcloud.core.errors import IllegalTransition, Unavailable, XmcloudError
from xmcloud.core.models import Job, JobState, Outcome
from xmcloud.core.protocol import Act, Enqueue, Stop

Deed = Callable[[], Coroutine[Any, Any, object]]


class Killed(Exception):
    """The process of the control plane ends between two operations."""


class Deaths(Staff):
    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), after=st.integers(0, 8))
    def killed(self, data: st.DataObject, after: int) -> None:
        """The control plane dies before some operation of a request; nobody gets an answer."""
        left = after

        async def die(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed(operation)

        self.rig.recording.before = die
        self.run(self.to_the_end(self.request(data)))
        self.rig.recording.reset()
        self.recover()

    async def to_the_end(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(Killed, XmcloudError):
            await work
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    def request(self, data: st.DataObject) -> Coroutine[Any, Any, object]:
        """Any that changes something; whoever sends it will be in doubt what came of it."""
        requests = self.of_people(self.some_job(data))
        if self.staffed:
            requests += self.of_a_worker(data)
        return data.draw(st.sampled_from(requests), "request")()

    def of_people(self, job: Job) -> list[Deed]:
        requests: list[Deed] = [
            lambda: experiments.add_units(self.plane, self.experiments[0], units(spec()), "killed"),
            lambda: jobs.stop_job(self.plane, job.id, Stop()),
            lambda: jobs.dequeue_job(self.plane, job.id, Act()),
            lambda: sweep.sweep(self.plane),
        ]
        if job.state in LEGAL["enqueue"]:
            self.freed.add(job.id)
            requests.append(lambda: jobs.enqueue_job(self.plane, job.id, Enqueue()))
        return requests

    def of_a_worker(self, data: st.DataObject) -> list[Deed]:
        worker = self.some_worker(data)
        reports = [
            self.news("finished", job.id, job.fence, data.draw(outcomes))
            for job in worker.running.values()
        ]
        worker.in_doubt = True
        return [
            lambda: sessions.open_session(self.plane, worker.name, worker.request),
            lambda: exchange(self.plane, worker, worker.sync(claim=worker.claim())),
            lambda: exchange(self.plane, worker, worker.sync(*reports, claim=worker.claim())),
        ]

    def recover(self) -> None:
        """The ledger learns from the store what was done; that it was allowed is still checked."""
        self.check_histories()
        found = self.run(SESSIONS.find(self.rig.store, queries.open_sessions().page(400, None)))
        opened = {stored.item.id: stored.item for stored in found[0]}
        self.owners.update({id: session.worker for id, session in opened.items()})
        self.ledger.leases = {id: session.expires_at for id, session in opened.items()}
        self.ledger.expected.clear()
        self.ledger.holders = self.attempts()
        self.ledger.stops = {j.id: j.stop.outcome for j in self.jobs.values() if j.stop}
        for worker in self.workers:
            held = self.ledger.holders
            worker.running = {
                id: job
                for id, job in worker.running.items()
                if held.get(id) == (job.fence, worker.session)
            }


class Races(Staff, Passage):
    @precondition(lambda self: self.staffed and self.ledger.holders)
    @rule(data=st.data())
    def raced_for_what_runs(self, data: st.DataObject) -> None:
        self.race(data, [self.jobs[id] for id in sorted(self.ledger.holders)])

    @precondition(lambda self: any(map(self.waiting, QUEUES)))
    @rule(data=st.data())
    def raced_for_what_waits(self, data: st.DataObject) -> None:
        self.race(data, [job for queue in QUEUES for job in self.waiting(queue)])

    def race(self, data: st.DataObject, chances: list[Job]) -> None:
        """Somebody is faster: acts between what a request read and what it writes."""
        job = data.draw(st.sampled_from(chances), "job")
        worker = self.holder(job) or self.able(data, job)
        rival = data.draw(st.sampled_from(self.rivals(job, worker)), "rival")
        decisive, loser = data.draw(st.sampled_from(self.losers(job, worker)), "loser")

        async def rival_first(operation: str) -> None:
            if operation == decisive:
                self.rig.recording.reset()
                await rival()
                self.compare(await self.all_jobs())

        self.rig.recording.before = rival_first
        self.run(loser())
        self.rig.recording.reset()
        self.ledger.expected.clear()

    def holder(self, job: Job) -> Worker | None:
        _, session = self.ledger.holders.get(job.id, (0, ""))
        return next((worker for worker in self.workers if worker.session == session), None)

    def able(self, data: st.DataObject, job: Job) -> Worker:
        """One that could take the job, if there is any; all are there."""
        for worker in self.workers:
            if not self.ledger.valid(str(worker.session), self.clock.now()):
                self.open(worker)
        self.look()
        able = [
            worker
            for worker in self.workers
            if job.spec.pool in ("", worker.pool) and job.queue in worker.queues and worker.claim()
        ]
        return self.some_worker(data, able or self.workers)

    def rivals(self, job: Job, worker: Worker) -> list[Deed]:
        async def stops() -> None:
            await self.stops(job)
            self.ledger.stop(job, Outcome.STOPPED)

        async def starts_again() -> None:
            lease = await sessions.open_session(self.plane, worker.name, worker.request)
            self.opened(worker, lease.session.id)

        async def others_claim() -> None:
            for other in self.workers:
                if other is not worker and other.session is not None:
                    await self.sync_in_race(other, claim=other.claim())

        if job.state is JobState.QUEUED:
            return [stops, lambda: self.dequeues(job), starts_again, others_claim]
        return [stops, starts_again, lambda: self.finishes(job, worker, Outcome.FAILED)]

    def losers(self, job: Job, worker: Worker) -> list[tuple[str, Deed]]:
        """What each does, and the operation that its change hangs on."""

        async def stops() -> None:
            await self.stops(job)
            if job.id in self.ledger.holders:
                self.ledger.stop(job, Outcome.STOPPED)

        async def claims() -> None:
            await self.sync_in_race(worker, claim=worker.claim())

        if job.state is JobState.QUEUED:
            claim = ("store.apply", claims)
            dequeue = ("store.commit", lambda: self.dequeues(job))
            return [claim, claim, claim, dequeue, ("store.commit", stops)]
        finish = ("store.apply", lambda: self.finishes(job, worker, Outcome.COMPLETED))
        return [finish, ("store.commit", self.swept), ("store.commit", stops)]

    async def stops(self, job: Job) -> None:
        with suppress(IllegalTransition, Unavailable):
            await jobs.stop_job(self.plane, job.id, Stop())

    async def dequeues(self, job: Job) -> None:
        with suppress(IllegalTransition):
            await jobs.dequeue_job(self.plane, job.id, Act())

    async def finishes(self, job: Job, worker: Worker, outcome: Outcome) -> None:
        await self.sync_in_race(worker, self.news("finished", job.id, max(1, job.fence), outcome))
