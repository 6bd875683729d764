"""Jobs by the unit that they are of."""

from collections import defaultdict
from collections.abc import Iterable

from xmcloud.core.models import Job


def by_unit(jobs: Iterable[Job]) -> dict[int, list[Job]]:
    """The jobs of each unit in the order of its group; units in the order in which they come."""
    units: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        units[job.unit].append(job)
    return {number: sorted(members, key=_place) for number, members in units.items()}


def _place(job: Job) -> int:
    return job.members.index(job.id)
