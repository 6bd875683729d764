"""What the people of a project run, and what they used."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from xmcloud.core import queries
from xmcloud.core.concurrency import for_each
from xmcloud.core.control.members import load_project
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.quotas import RUNNING, WAITING, count, gpu_hours
from xmcloud.core.ports import Query
from xmcloud.core.quotas import Whose
from xmcloud.core.usage import Month, PersonUsage, ProjectUsage, month_of

PEOPLE = 500
"""Of whom one answer tells, in order of name."""


async def project_usage(plane: ControlPlane, name: str, month: Month | None) -> ProjectUsage:
    """In that month, or this one. Reads a few documents a person. Raises `NotFound`."""
    project = await load_project(plane, name)
    month = month or month_of(plane.clock.now())
    whose = Whose(name)
    running, queued, hours, people = await asyncio.gather(
        count(plane, whose, RUNNING),
        count(plane, whose, WAITING),
        gpu_hours(plane, whose, month),
        _people(plane, name, month),
    )
    return ProjectUsage(
        project=name,
        month=month,
        quota=project.quota,
        person_quota=project.person_quota,
        running=running,
        queued=queued,
        gpu_hours=hours,
        people=await _each(plane, name, people, month),
    )


async def _each(
    plane: ControlPlane, project: str, people: Sequence[str], month: Month
) -> list[PersonUsage]:
    found: dict[str, PersonUsage] = {}

    async def look(person: str) -> None:
        found[person] = await _of_person(plane, Whose(project, person), month)

    await for_each(people, look)
    return [found[person] for person in people]


async def _of_person(plane: ControlPlane, whose: Whose, month: Month) -> PersonUsage:
    running, queued, hours = await asyncio.gather(
        count(plane, whose, RUNNING), count(plane, whose, WAITING), gpu_hours(plane, whose, month)
    )
    return PersonUsage(person=whose.person, running=running, queued=queued, gpu_hours=hours)


async def _people(plane: ControlPlane, project: str, month: Month) -> list[str]:
    """Who used something in the month, or has jobs now."""
    found = await asyncio.gather(
        _names(plane, "person", partial(queries.users_after, project, month)),
        *(
            _names(plane, "creator", partial(queries.creators_after, project, state))
            for state in (*RUNNING, *WAITING)
        ),
    )
    return sorted({name for names in found for name in names})[:PEOPLE]


async def _names(plane: ControlPlane, field: str, after: Callable[[str], Query]) -> list[str]:
    """The distinct values, each found by one read: the first behind the one before."""
    names = [""]
    while len(names) <= PEOPLE:
        page = await plane.store.find(after(names[-1]).page(1, None))
        if not page.documents:
            break
        names.append(str(page.documents[0].data[field]))
    return names[1:]
