"""Faults planted in the control plane, one function replaced for each."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.support.recording import RecordedQueue, RecordedStore
from xmcloud.core import lifecycle, names, queries
from xmcloud.core.control import claims, experiments, queues, sessions, sweep, sync
from xmcloud.core.control.free import Free
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.documents import Stored
from xmcloud.core.errors import StaleFence, Unavailable
from xmcloud.core.lifecycle import CONFIRMED, UNCONFIRMED
from xmcloud.core.models import Job, JobState, Session, Waiting
from xmcloud.core.ports import Message, Query, Version, Write

Patch = pytest.MonkeyPatch


def fence_not_checked(patch: Patch) -> None:
    """A report of any attempt is taken for the newest."""
    right = sync._after

    def wrong(plane: ControlPlane, session: str, job: Job, report: Any) -> Job:
        if job.attempt is None:
            return job
        current = report.model_copy(update={"fence": job.attempt.fence})
        return right(plane, job.attempt.session, job, current)

    patch.setattr(sync, "_after", wrong)


def session_not_checked(patch: Patch) -> None:
    """Somebody else's session may report, if only it knows the fence."""
    right = sync._after

    def wrong(plane: ControlPlane, session: str, job: Job, report: Any) -> Job:
        return right(plane, job.attempt.session if job.attempt else session, job, report)

    patch.setattr(sync, "_after", wrong)


def what_comes_back_is_lost(patch: Patch) -> None:
    """What a worker still has is given to others when it opens a session."""

    def wrong(job: Job, fence: int, *_: object) -> Job:
        raise StaleFence(job.id, fence, "nothing goes on")

    patch.setattr(lifecycle, "adopted", wrong)


def lease_holds_at_its_end(patch: Patch) -> None:
    patch.setattr(Session, "valid_at", lambda self, now: self.open and now <= self.expires_at)


def sweep_comes_an_instant_late(patch: Patch) -> None:
    right = queries.expired_sessions
    patch.setattr(queries, "expired_sessions", lambda now: right(now - timedelta(microseconds=1)))


def requeued_without_permit(patch: Patch) -> None:
    """What is lost waits for a permit that nobody published."""

    async def silent(plane: ControlPlane, found: Sequence[Stored[Job]]) -> list[Stored[Job]]:
        return list(found)

    patch.setattr(sessions, "spread", silent)
    patch.setattr(sync, "spread", silent)
    _trust_permits_after(patch, "_requeued")


def _trust_permits_after(patch: Patch, transition: str) -> None:
    right = getattr(lifecycle, transition)

    def wrong(*given: Any, **named: Any) -> Job:
        job: Job = right(*given, **named)
        assert job.waiting is not None
        late = job.waiting.permit_due_at - UNCONFIRMED + CONFIRMED
        return job.evolve(waiting=Waiting(permit_due_at=late, before=job.waiting.before))

    patch.setattr(lifecycle, transition, wrong)


def moved_without_permit(patch: Patch) -> None:
    """In the other queue it keeps the permit of the one it left."""

    async def silent(plane: ControlPlane, found: Sequence[Stored[Job]]) -> list[Stored[Job]]:
        return list(found)

    patch.setattr(queues, "spread", silent)

    def wrong(job: Job, queue: str, position: int, now: Any) -> Job:
        lifecycle._require(job, "move", JobState.QUEUED)
        return job.evolve(queue=queue, position=position, updated_at=now)

    patch.setattr(queues, "moved", wrong)


def unconfirmed_permit_trusted(patch: Patch) -> None:
    """The broker did not answer, and the permit is taken for published."""
    right = RecordedQueue.publish

    async def wrong(self: RecordedQueue, topic: str, messages: Sequence[Message]) -> None:
        with suppress(Unavailable):
            await right(self, topic, messages)

    patch.setattr(RecordedQueue, "publish", wrong)


def pool_not_checked(patch: Patch) -> None:
    """Whatever waits is found under the worker's own pool."""
    right = queries.claimable

    def wrong(queue: str, pool: str) -> Query:
        return queries.waiting(queue) if pool else right(queue, "nobody")

    patch.setattr(queries, "claimable", wrong)


def pause_not_checked(patch: Patch) -> None:
    async def wrong(plane: ControlPlane) -> set[str]:
        return set()

    patch.setattr(claims, "paused_queues", wrong)


def resources_not_checked(patch: Patch) -> None:
    def take(self: Free, job: Job) -> None:
        self._before.append((job, self.resources))
        self.slots -= 1

    patch.setattr(Free, "fits", lambda self, job: True)
    patch.setattr(Free, "take", take)


def preconditions_ignored(patch: Patch) -> None:
    """The last writer wins, whatever it had read."""

    async def wrong(self: RecordedStore, writes: Sequence[Write]) -> list[Version | None]:
        newest: list[Write] = []
        async with self._recording.operation("store.apply"):
            for write in writes:
                (there,) = await self._store.get(write.collection, [write.id])
                last = Write.replace(write.collection, there, write.data) if there else write
                newest.append(last)
            return await self._store.apply(newest)

    patch.setattr(RecordedStore, "apply", wrong)


def unsettled_sessions_forgotten(patch: Patch) -> None:
    """A claim that came too late for the end of its session stays for ever."""

    async def wrong(plane: ControlPlane) -> int:
        return 0

    patch.setattr(sweep, "_settle", wrong)


def key_ignored(patch: Patch) -> None:
    """A batch that is sent again is added again."""
    right = names.job_id
    made = iter(range(10**9))

    def wrong(experiment: str, key: str, index: int) -> str:
        return right(experiment, key, next(made))

    patch.setattr(experiments, "job_id", wrong)


def stop_lost_on_requeue(patch: Patch) -> None:
    """Who asked for a stop just before the worker died gets the job running again."""
    right = lifecycle.lost
    patch.setattr(lifecycle, "lost", lambda job, *rest: right(job.evolve(stop=None), *rest))


def fence_begins_again_after_reset(patch: Patch) -> None:
    right = lifecycle.reset
    patch.setattr(lifecycle, "reset", lambda *given: right(*given).evolve(fence=0))


def one_budget_for_all_retries(patch: Patch) -> None:
    """An interruption uses up the retries meant for the user's own failures."""
    right = lifecycle._requeued

    def wrong(*given: Any, failures: int = 0, losses: int = 0) -> Job:
        return right(*given, failures=failures + losses)

    patch.setattr(lifecycle, "_requeued", wrong)


def results_after_the_end(patch: Patch) -> None:
    """A finished job can be stopped, as though it still ran."""
    right = lifecycle._require

    def wrong(job: Job, action: str, *legal: Any) -> None:
        if action != "stop":
            right(job, action, *legal)

    patch.setattr(lifecycle, "_require", wrong)


def sweep_publishes_nothing(patch: Patch) -> None:
    async def wrong(plane: ControlPlane) -> int:
        return 0

    patch.setattr(sweep, "_publish_due", wrong)


FAULTS: list[Callable[[Patch], None]] = [
    fence_not_checked,
    session_not_checked,
    lease_holds_at_its_end,
    sweep_comes_an_instant_late,
    requeued_without_permit,
    moved_without_permit,
    unconfirmed_permit_trusted,
    pool_not_checked,
    pause_not_checked,
    resources_not_checked,
    preconditions_ignored,
    unsettled_sessions_forgotten,
    key_ignored,
    stop_lost_on_requeue,
    fence_begins_again_after_reset,
    one_budget_for_all_retries,
    results_after_the_end,
    sweep_publishes_nothing,
]

RETURNING_FAULTS: list[Callable[[Patch], None]] = [what_comes_back_is_lost]
