"""Faults planted in what concerns groups and targets, one function replaced for each."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from xmcloud.core import groups, lifecycle
from xmcloud.core.control import (
    changing,
    claims,
    dispatch,
    gathering,
    observing,
    submissions,
)
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.quotas import Turn
from xmcloud.core.documents import SESSIONS, Stored
from xmcloud.core.models import (
    Gathering,
    Job,
    JobState,
    PoolState,
    Remote,
    Session,
    TargetState,
    Vain,
)
from xmcloud.core.platforms import PlatformJob

Patch = pytest.MonkeyPatch


def other_gatherings_ignored(patch: Patch) -> None:
    """Each group takes over the pool, whoever gathers there."""
    right = gathering._gathering

    async def wrong(
        plane: ControlPlane, pool: PoolState, vain: dict[str, Vain], leader: str, now: Any
    ) -> Gathering | None:
        mine = pool.gathering is not None and pool.gathering.leader == leader
        seen = pool if mine else pool.evolve(gathering=None)
        return await right(plane, seen, {}, leader, now)

    patch.setattr(gathering, "_gathering", wrong)


def groups_never_settled(patch: Patch) -> None:
    """What happens to one job means nothing for the others."""

    def wrong(jobs: Sequence[Job], now: Any) -> list[Job]:
        return list(jobs)

    patch.setattr(changing, "settled", wrong)
    patch.setattr(groups, "settled", wrong)


def second_submission_goes_on(patch: Patch) -> None:
    async def wrong(
        plane: ControlPlane, name: str, unit: Sequence[Job], found: PlatformJob
    ) -> None:
        remote = Remote(name=found.name, url=found.url)
        await submissions.change_attempts(
            plane,
            unit,
            lambda job: lifecycle.submitted(job, job.fence, remote, plane.clock.now()),
        )

    patch.setattr(submissions, "record", wrong)
    patch.setattr(observing, "record", wrong)


def limit_not_checked(patch: Patch) -> None:
    right = dispatch._choose

    async def wrong(
        plane: ControlPlane, name: str, state: TargetState, room: int, turn: Turn
    ) -> list[list[Stored[Job]]]:
        return await right(plane, name, state, 1000, turn)

    patch.setattr(dispatch, "_choose", wrong)


def postponed_counts_as_lost(patch: Patch) -> None:
    right = lifecycle.postponed

    def wrong(job: Job, *rest: Any) -> Job:
        return right(job, *rest).evolve(losses=job.losses + 1)

    patch.setattr(lifecycle, "postponed", wrong)


def group_starts_before_all_of_it_waits(patch: Patch) -> None:
    def wrong(jobs: Sequence[Job]) -> bool:
        return any(job.state is JobState.QUEUED for job in jobs)

    patch.setattr(claims, "whole", wrong)
    patch.setattr(dispatch, "whole", wrong)


def places_of_lost_workers_count(patch: Patch) -> None:
    async def wrong(
        plane: ControlPlane,
        found: Gathering,
        unit: Sequence[Stored[Job]],
        session: Session,
        now: Any,
    ) -> tuple[Gathering, dict[str, Session]]:
        ids = {place.session for place in found.places.values()} - {session.id}
        there = await SESSIONS.get_many(plane.store, sorted(ids)) if ids else []
        return found, {s.item.id: s.item for s in there if s} | {session.id: session}

    patch.setattr(gathering, "_still_there", wrong)


GROUP_FAULTS: list[Callable[[Patch], None]] = [
    other_gatherings_ignored,
    groups_never_settled,
    second_submission_goes_on,
    limit_not_checked,
    postponed_counts_as_lost,
    group_starts_before_all_of_it_waits,
    places_of_lost_workers_count,
]
