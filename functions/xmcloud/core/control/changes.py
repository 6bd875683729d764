"""Following an experiment: which jobs changed since a cursor.

A change becomes visible a little after the time it carries, and two of them not always in that
order. So each answer looks back over the last moments again, and the cursor holds a fingerprint
of what was seen there: the same window again is no news.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from xmcloud.core import queries
from xmcloud.core.base import sortable
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import EXPERIMENTS, JOBS
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Job
from xmcloud.core.protocol import BATCH_LIMIT, Changes
from xmcloud.core.signals import woken

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Everything before `since`, and the part of what follows that the fingerprint is of."""

    since: datetime
    fingerprint: str

    @classmethod
    def parse(cls, cursor: str | None) -> "_Seen":
        if cursor is None:
            return cls(_BEGINNING, "")
        time, _, fingerprint = cursor.partition("~")
        try:
            since = datetime.fromisoformat(time)
        except ValueError:
            since = None
        if since is None or since.tzinfo is None:
            raise InvalidInput("since", cursor, "the cursor of an earlier answer")
        return cls(since, fingerprint)

    def cursor(self) -> str:
        return f"{sortable(self.since)}~{self.fingerprint}"


def _fingerprint(jobs: Iterable[Job]) -> str:
    seen = sorted(f"{job.id}{sortable(job.updated_at)}" for job in jobs)
    return hashlib.sha256("".join(seen).encode()).hexdigest()[:16] if seen else ""


async def changes(plane: ControlPlane, id: str, since: str | None, wait: float) -> Changes:
    """Jobs changed since a cursor; waits up to `wait` seconds for the first. Raises `NotFound`."""
    if since is None:
        await EXPERIMENTS.get(plane.store, id)
    seen = _Seen.parse(since)
    deadline = plane.clock.now() + timedelta(seconds=wait)
    async with plane.signals.listen(f"experiment/{id}") as event:
        while True:
            found = await _window(plane, id, seen.since)
            left = (deadline - plane.clock.now()).total_seconds()
            if _fingerprint(found) != seen.fingerprint:
                return Changes(jobs=found, cursor=_after(plane, seen, found).cursor())
            if left <= 0:
                return Changes(jobs=[], cursor=seen.cursor())
            await woken(event, min(left, plane.look_again.total_seconds()))


async def _window(plane: ControlPlane, id: str, since: datetime) -> list[Job]:
    jobs: list[Job] = []
    query, cursor = queries.changed_jobs(id, since), None
    while True:
        page, cursor = await JOBS.find(plane.store, query.page(BATCH_LIMIT, cursor))
        jobs.extend(stored.item for stored in page)
        if cursor is None:
            return jobs


def _after(plane: ControlPlane, seen: _Seen, found: list[Job]) -> _Seen:
    latest = max((job.updated_at for job in found), default=seen.since)
    since = max(seen.since, latest - plane.overlap)
    return _Seen(since, _fingerprint(job for job in found if job.updated_at >= since))
