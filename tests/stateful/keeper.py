"""A worker that also keeps places for jobs of groups."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from tests.stateful.worker import Worker
from xmcloud.core.worker_protocol import AttemptRef, Claim, QueueAnswer, Report, Sync, SyncAnswer


@dataclass
class Keeper(Worker):
    """`places` are the resources that are kept for a job, and until when."""

    places: dict[str, tuple[dict[str, float], datetime]] = field(default_factory=dict)
    ports: "count[int]" = field(default_factory=lambda: count(7000))
    busy: bool = False

    def crash(self) -> None:
        super().crash()
        self.places = {}

    def claim(self) -> Claim | None:
        claim = super().claim()
        if claim is None or claim.slots <= len(self.places):
            return None
        free = dict(claim.resources)
        for resources, _ in self.places.values():
            for name, amount in resources.items():
                free[name] = free.get(name, 0.0) - amount
                assert free[name] >= 0, f"{self.name} keeps more than it has of {name}"
        slots = claim.slots - len(self.places)
        ports = tuple(1024 + next(self.ports) % 60_000 for _ in range(slots))
        left = {name: amount for name, amount in free.items() if amount > 0}
        return Claim(slots=slots, queues=self.queues, resources=left, ports=ports)

    def question(self, *reports: Report) -> Sync:
        """Reports, and whether there is anything that it does not know of."""
        known = tuple(AttemptRef(job_id=j.id, fence=j.fence) for j in self.running.values())
        return Sync(reports=reports, known=known, watch_stops=True)

    def heard(self, answer: SyncAnswer, now: datetime) -> None:
        for job in answer.jobs:
            self.places.pop(job.id, None)
        for id, (_, until) in list(self.places.items()):
            if until <= now:
                del self.places[id]
        for each in answer.reservations:
            until = now + timedelta(seconds=each.seconds)
            self.places[each.job_id] = (dict(each.resources), until)
        self.learn(answer)
        assert len(self.running) + len(self.places) <= self.slots, f"{self.name} is overbooked"

    @staticmethod
    def left_over(answer: SyncAnswer) -> list[QueueAnswer]:
        """A group that only has places waits on, and its permits with it."""
        if not answer.reservations:
            return answer.queues
        return [
            queue.evolve(answer="unfit") if queue.answer == "empty" else queue
            for queue in answer.queues
        ]
