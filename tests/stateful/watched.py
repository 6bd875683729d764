"""A store through which no group starts in part."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.recording import RecordedStore, Recording
from xmcloud.core.documents import JOBS
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import Store, Version, Write


@dataclass
class Watch:
    """`closed` are sessions that were over before this step began."""

    closed: set[str] = field(default_factory=set)


class WatchedStore(RecordedStore):
    def __init__(self, store: Store, recording: Recording, watch: Watch) -> None:
        super().__init__(store, recording)
        self._watch = watch

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        await self._check_claims(writes)
        return await super().commit(writes)

    async def apply(self, writes: Sequence[Write]) -> list[Version | None]:
        for write in writes:
            await self._check_claims([write])
        return await super().apply(writes)

    async def _check_claims(self, writes: Sequence[Write]) -> None:
        """What is claimed together is all that is left of a group, and knows all its peers."""
        claims = {job.id: job for job in map(_claimed, writes) if job is not None}
        for job in claims.values():
            assert job.attempt is not None
            assert job.attempt.session not in self._watch.closed, f"{job.id} went to the gone"
            if not job.group:
                continue
            left = {m.id: m for m in await self._members(job) if m.state is not JobState.COMPLETED}
            assert left.keys() <= claims.keys(), f"the group of {job.id} starts in part"
            together = [claims[id].attempt for id in left]
            assert {a.claimed_at for a in together if a} == {job.attempt.claimed_at}
            if any(a.peers for a in together if a):
                assert job.attempt.peers.keys() == {m.name for m in left.values()}
                assert all(a.peers == job.attempt.peers for a in together if a)

    async def _members(self, job: Job) -> list[Job]:
        found = await self._store.get(JOBS.name, job.members)
        return [JOBS.read(document).item for document in found if document is not None]


def _claimed(write: Write) -> Job | None:
    """The job that the write hands out."""
    if write.collection != JOBS.name or write.data is None:
        return None
    job = Job.model_validate_json(str(write.data["body"]))
    attempt = job.attempt
    fresh = job.state is JobState.STARTING and attempt is not None and attempt.remote is None
    return job if fresh and job.stop is None and job.reason.code == "claimed" else None
