"""Workers: they come and go, take jobs, report, and are told only what is theirs."""

from collections.abc import Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.base import Base
from tests.stateful.draws import outcomes
from tests.stateful.ledger import Attempt, expected_claim
from tests.stateful.worker import Worker, exchange, settle
from tests.support.planes import LEASE
from xmcloud.core.control import sessions
from xmcloud.core.errors import LeaseLost
from xmcloud.core.models import JobState, Outcome, Reason, ReasonCode
from xmcloud.core.ports import Delivery
from xmcloud.core.worker_protocol import (
    Claim,
    Finished,
    Output,
    Report,
    Started,
    SyncAnswer,
)

BACKOFF = 10.0


class Staff(Base):
    """`owners` are the names of the workers that opened the sessions.

    `history` holds every attempt that was ever handed out: the job, its fence and the session.
    """

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, str] = {}
        self.history: list[tuple[str, int, str]] = []

    @rule(data=st.data())
    def open_session(self, data: st.DataObject) -> None:
        """Also again, under the same name: what the earlier one held is lost at once."""
        self.open(self.some_worker(data, self.workers))

    def open(self, worker: Worker) -> None:
        lease = self.run(sessions.open_session(self.plane, worker.name, worker.request))
        self.opened(worker, lease.session.id)

    def opened(self, worker: Worker, session: str, goes_on: Sequence[Attempt] = ()) -> None:
        for id, fence in goes_on:
            if id not in self.ledger.holders:
                began = self.jobs[id].attempts[-1].started_at is not None
                self.ledger.expected[id] = JobState.RUNNING if began else JobState.STARTING
                self.freed.add(id)
            self.ledger.holders[id] = (fence, session)
            self.history.append((id, fence, session))
        for earlier, name in self.owners.items():
            if name == worker.name and earlier in self.ledger.leases:
                self.ledger.session_ended(earlier, self.jobs)
        self.owners[session] = worker.name
        worker.crash()
        worker.session = session
        self.ledger.leases[session] = self.clock.now() + LEASE

    @precondition(lambda self: self.staffed)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Nobody hears of it."""
        self.some_worker(data).crash()

    @precondition(lambda self: self.staffed)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        worker = self.some_worker(data)
        assert worker.session is not None
        self.run(sessions.close_session(self.plane, worker.session))
        self.ledger.session_ended(worker.session, self.jobs)
        worker.crash()

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """One turn of a worker: permits, a claim, and what becomes of the permits."""
        worker = self.some_worker(data, self.workers)
        if worker.session is None:
            self.open(worker)
            self.look()
        self.turn(worker)

    @rule(data=st.data())
    def all_work(self, data: st.DataObject) -> None:
        """Each worker has a turn; what runs begins or ends, as it should."""
        for worker in self.workers:
            self.turn(worker)
            for job in list(worker.running.values()):
                kind = data.draw(st.sampled_from(("nothing", "nothing", "started", "finished")))
                if kind != "nothing" and worker.session is not None:
                    self.exchange(worker, self.news(kind, job.id, job.fence, data.draw(outcomes)))
                    self.look()

    def turn(self, worker: Worker) -> bool:
        """Whether there was anything to do."""
        if worker.session is None or worker.claim() is None:
            return False
        deliveries = [] if worker.hungry else self.run(worker.pull(self.plane))
        if not (deliveries or worker.hungry or worker.in_doubt):
            return False
        self.ask(worker, deliveries)
        self.look()
        return True

    def ask(self, worker: Worker, deliveries: list[Delivery]) -> None:
        """For what is free, and gets what the ledger would give it."""
        claim = None if worker.in_doubt else worker.claim()
        answer = self.exchange(worker, claim=claim)
        if answer is None or claim is None:
            return
        expected = expected_claim(list(self.jobs.values()), worker.pool, claim, self.ledger.paused)
        assert (
            [job.id for job in answer.jobs],
            [(q.name, q.answer, q.taken) for q in answer.queues],
        ) == expected
        self.run(settle(self.plane, deliveries, answer.queues, BACKOFF))

    def exchange(
        self, worker: Worker, *reports: Report, claim: Claim | None = None
    ) -> SyncAnswer | None:
        """None where the lease is over; the worker ends with it."""
        session = str(worker.session)
        asked = exchange(self.plane, worker, worker.sync(*reports, claim=claim))
        if not self.ledger.valid(session, self.clock.now()):
            with pytest.raises(LeaseLost):
                self.run(asked)
            worker.crash()
            return None
        stops = self.ledger.stops_of(session)
        answer = self.run(asked)
        self.settled(worker, session, reports, answer, stops)
        return answer

    def heard(
        self,
        worker: Worker,
        session: str,
        answer: SyncAnswer,
        stops: set[Attempt],
        reported: set[Attempt],
    ) -> None:
        """`session` is the one that asked; meanwhile the worker may have begun another.

        `stops` are the attempts that were to be stopped when it asked. What is `reported` or asked
        for during the exchange may be told or not.
        """
        for job in answer.jobs:
            if worker.in_doubt:
                assert self.ledger.holders[job.id] == (job.fence, session)
                continue
            assert job.spec.pool in ("", worker.pool)
            assert job.queue in worker.queues
            assert job.queue not in self.ledger.paused
            self.ledger.claimed(job, session, self.clock.now())
        self.history += [(job.id, job.fence, session) for job in answer.jobs]
        if session not in self.ledger.leases:
            return
        now = self.ledger.stops_of(session)
        told = {(order.job_id, order.fence) for order in answer.stops}
        assert stops & now <= told <= stops | now | reported
        self.ledger.leases[session] = answer.lease_expires_at
        worker.learn(answer)

    @precondition(lambda self: self.staffed)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        worker = self.some_worker(data)
        answer = self.exchange(worker)
        if answer is not None:
            renewed = self.clock.now() + LEASE
            assert answer.lease_expires_at >= renewed - self.plane.heartbeat / 2

    @precondition(lambda self: self.staffed and self.history)
    @rule(data=st.data(), kind=st.sampled_from(("started", "output", "finished")), outcome=outcomes)
    def report(self, data: st.DataObject, kind: str, outcome: Outcome) -> None:
        """Of its own attempt, of one long over, or of somebody else's."""
        worker = self.some_worker(data)
        own = [a for a in self.history if a[0] in worker.running and a[2] == worker.session]
        job, fence, _ = data.draw(st.sampled_from([*own, *self.history]), "attempt")
        self.exchange(worker, self.news(kind, job, fence, outcome))

    def news(self, kind: str, job: str, fence: int, outcome: Outcome) -> Report:
        if kind == "started":
            return Started(job_id=job, fence=fence, at=self.clock.now())
        if kind == "output":
            return Output(job_id=job, fence=fence, offset=0, data=b"aGVsbG8gd29ybGQ=")
        reason = Reason(code=ReasonCode.EXITED, message="it ended")
        return Finished(job_id=job, fence=fence, outcome=outcome, reason=reason)

    def settled(
        self,
        worker: Worker,
        session: str,
        reports: Sequence[Report],
        answer: SyncAnswer,
        stops: set[Attempt],
    ) -> None:
        for report, result in zip(reports, answer.results, strict=True):
            holds = self.ledger.holders.get(report.job_id) == (report.fence, session)
            if not holds:
                assert result.problem is not None
                assert result.problem.status == 409
                continue
            assert result.problem is None
            if isinstance(report, Started):
                self.ledger.started(report.job_id)
            elif isinstance(report, Finished):
                self.ledger.attempt_ended(self.jobs[report.job_id], report.outcome)
                worker.gave_back(report.job_id)
        reported = {(report.job_id, report.fence) for report in reports}
        self.heard(worker, session, answer, stops, reported)

    async def sync_in_race(
        self, worker: Worker, *reports: Report, claim: Claim | None = None
    ) -> None:
        """An exchange during which others act; a lease may end meanwhile."""
        session = str(worker.session)
        request = worker.sync(*reports, claim=None if worker.in_doubt else claim)
        stops = self.ledger.stops_of(session)
        try:
            answer = await exchange(self.plane, worker, request)
        except LeaseLost:
            assert not self.ledger.valid(session, self.clock.now())
            return
        self.settled(worker, session, reports, answer, stops)
