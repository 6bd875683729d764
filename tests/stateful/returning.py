"""Workers that come back with what they still run."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.ledger import Attempt
from tests.stateful.machine import UnreliableMachine
from tests.stateful.worker import Worker
from xmcloud.core.control import sessions
from xmcloud.core.models import JobState, Outcome
from xmcloud.core.worker_protocol import AttemptRef


class Returning(UnreliableMachine):
    """Besides all that happens to the others."""

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """With attempts that it had, over long ago or not: those go on that nobody else has."""
        worker = self.some_worker(data, self.workers)
        own = self.had(worker)
        chosen = data.draw(st.sets(st.sampled_from(own), max_size=4)) if own else set()
        goes_on = [each for each in sorted(chosen) if self.may_go_on(*each, worker)]
        worker.crash()
        while goes_on and not worker.has_room_for([self.jobs[job] for job, _ in goes_on]):
            chosen.discard(goes_on.pop())
        refs = tuple(AttemptRef(job_id=job, fence=fence) for job, fence in sorted(chosen))
        request = worker.request.evolve(holds=refs)
        lease = self.run(sessions.open_session(self.plane, worker.name, request))
        self.opened(worker, lease.session.id, goes_on)
        worker.running = {held.job.id: held.job for held in lease.held}
        assert sorted((held.job.id, held.job.fence) for held in lease.held) == goes_on

    def had(self, worker: Worker) -> list[Attempt]:
        """Rather those of which another worker has the job by now."""
        names = {s for s, name in self.owners.items() if name == worker.name}
        own = [(job, fence) for job, fence, session in self.history if session in names]
        holders = {job: session for job, (_, session) in self.ledger.holders.items()}
        lost = [each for each in own if holders.get(each[0], next(iter(names))) not in names]
        return lost or own[-8:]

    def may_go_on(self, id: str, fence: int, worker: Worker) -> bool:
        """It holds it still, or lost it and the job waits since."""
        holder, job = self.ledger.holders.get(id), self.jobs[id]
        if holder is not None:
            return holder[0] == fence and self.owners[holder[1]] == worker.name
        last = job.attempts[-1] if job.attempts else None
        given_up = last is not None and (last.fence, last.outcome) == (fence, Outcome.LOST)
        return job.state is JobState.QUEUED and given_up
