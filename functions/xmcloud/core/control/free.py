"""What is free of a worker while a claim is put together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xmcloud.core.models import Job
from xmcloud.core.resources import left_after
from xmcloud.core.worker_protocol import Claim


@dataclass(slots=True)
class Free:
    """Taken from as jobs are chosen, and given back to when a race was lost."""

    slots: int
    resources: dict[str, float]
    ports: list[int]
    _before: list[tuple[Job, dict[str, float]]] = field(default_factory=list)
    """The jobs that were taken, each with what was free before."""

    @classmethod
    def of(cls, claim: Claim) -> "Free":
        return cls(claim.slots, dict(claim.resources), list(claim.ports))

    def fits(self, job: Job) -> bool:
        wanted = job.spec.resources.items()
        return all(self.resources.get(name, 0.0) >= amount for name, amount in wanted)

    def take(self, job: Job) -> None:
        self._before.append((job, self.resources))
        self.slots -= 1
        self.resources = left_after(self.resources, job.spec.resources)

    def give_back(self, jobs: Sequence[Job]) -> None:
        returned = {job.id for job in jobs}
        if not returned:
            return
        first = next(i for i, (job, _) in enumerate(self._before) if job.id in returned)
        self.resources = self._before[first][1]
        again = [job for job, _ in self._before[first:]]
        self.slots += len(again)
        del self._before[first:]
        for job in again:
            if job.id not in returned:
                self.take(job)

    def take_all(self, jobs: Sequence[Job]) -> bool:
        """Takes them all, or none."""
        if len(jobs) > self.slots:
            return False
        taken: list[Job] = []
        for job in jobs:
            if not self.fits(job):
                self.give_back(taken)
                return False
            self.take(job)
            taken.append(job)
        return True
