"""Which jobs of two runs are compared with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from xmcloud.core.models import Job


@dataclass(frozen=True, slots=True)
class Paired:
    """The pairs in the order of A's jobs, and what is left."""

    pairs: list[tuple[Job, Job]]
    only_a: list[Job]
    only_b: list[Job]


def pair(a: Sequence[Job], b: Sequence[Job]) -> Paired:
    """A job with its copy, else with that of the same number and place in its group.

    Two runs of one job each are always a pair.
    """
    if len(a) == len(b) == 1:
        return Paired([(a[0], b[0])], [], [])
    copies = {job.cloned_from: job for job in b}
    originals = {job.id: job for job in b}
    places = {_place(job): job for job in b}
    left = {job.id: job for job in b}
    pairs: list[tuple[Job, Job]] = []
    alone: list[Job] = []
    related = [copies.get(job.id) or originals.get(job.cloned_from or "") for job in a]
    for mine, other in zip(a, related, strict=True):
        chosen = other or (None if any(related) else places.get(_place(mine)))
        if chosen is not None and chosen.id in left:
            pairs.append((mine, left.pop(chosen.id)))
        else:
            alone.append(mine)
    return Paired(pairs, alone, list(left.values()))


def _place(job: Job) -> tuple[int, int]:
    return job.unit, job.members.index(job.id)
