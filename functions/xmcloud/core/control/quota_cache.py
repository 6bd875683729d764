"""The projects, as far as their quotas go: read again every few seconds while somebody asks."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from xmcloud.core import queries
from xmcloud.core.documents import PROJECTS
from xmcloud.core.identity import Project
from xmcloud.core.ports import Store

FRESH = timedelta(seconds=5)
"""So late may a process notice that another one set a quota."""

REMEMBERED = timedelta(minutes=1)
"""For whom it is enough to know which projects have one."""

_EVERY = 500


class QuotaCache:
    """Of one process."""

    def __init__(self) -> None:
        self._projects: Mapping[str, Project] = {}
        self._read_at: datetime | None = None

    def forget(self) -> None:
        """A quota was set here."""
        self._read_at = None

    async def projects(
        self, store: Store, now: datetime, age: timedelta = FRESH
    ) -> Mapping[str, Project]:
        """All of them by name; the default one may be missing, which has no quota then."""
        if self._read_at is None or not timedelta(0) <= now - self._read_at < age:
            page, _ = await PROJECTS.find(store, queries.projects().page(_EVERY, None))
            self._projects = {stored.item.name: stored.item for stored in page}
            self._read_at = now
        return self._projects
