"""What is free of a worker while a claim is put together."""

from collections.abc import Sequence
from dataclasses import dataclass

from xmcloud.core.models import Job
from xmcloud.core.worker_protocol import Claim


@dataclass(slots=True)
class Free:
    """Taken from as jobs are chosen, and given back to when a race was lost."""

    slots: int
    resources: dict[str, float]
    ports: list[int]

    @classmethod
    def of(cls, claim: Claim) -> "Free":
        return cls(claim.slots, dict(claim.resources), list(claim.ports))

    def fits(self, job: Job) -> bool:
        wanted = job.spec.resources.items()
        return all(self.resources.get(name, 0.0) >= amount for name, amount in wanted)

    def take(self, job: Job, sign: int = 1) -> None:
        self.slots -= sign
        for name, amount in job.spec.resources.items():
            self.resources[name] -= sign * amount

    def give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.take(job, -1)

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
