"""Claims at the same time keep to a quota of running jobs together."""

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.builders import EXITED, spec, units
from tests.support.clock import ManualClock
from tests.support.planes import Rig, sqlite_rig
from xmcloud.core import queries
from xmcloud.core.control import experiments, members, sessions
from xmcloud.core.control.sync import sync
from xmcloud.core.identity import Quota
from xmcloud.core.member_protocol import EditProject
from xmcloud.core.models import JobState, Outcome
from xmcloud.core.protocol import NewExperiment
from xmcloud.core.worker_protocol import Claim, Finished, OpenSession, Sync

ACTIVE = (JobState.STARTING, JobState.RUNNING)
POOLS = ("one", "two")
"""Workers of two pools never race for the same job, only for the quota."""


class Watch:
    """Puts operations of several claims in some order, and looks at what runs after each."""

    def __init__(self, rig: Rig, quota: Quota, person: Quota, draws: random.Random) -> None:
        self._rig, self._draws = rig, draws
        limits = {"": quota.running, "ann": person.running, "bob": person.running}
        self._limits = {who: limit for who, limit in limits.items() if limit is not None}
        rig.recording.before = self.step

    async def step(self, operation: str) -> None:
        for _ in range(self._draws.randrange(4)):
            await asyncio.sleep(0)
        if operation in ("store.commit", "store.apply", "store.count"):
            for who, limit in self._limits.items():
                asked = [queries.active_in("default", state, who) for state in ACTIVE]
                running = [await self._rig.store.count(query) for query in asked]
                assert sum(running) <= limit, who


async def work(rig: Rig, number: int, slots: int) -> None:
    """A worker that runs what it can get, until there is nothing left."""
    request = OpenSession(slots=slots, pool=POOLS[number % 2])
    session = (await sessions.open_session(rig.plane, f"w{number}", request)).session
    for _ in range(200):
        claim = Claim(slots=slots, queues=("default",))
        answer = await sync(rig.plane, session.id, Sync(claim=claim))
        ends = tuple(
            Finished(job_id=job.id, fence=job.fence, outcome=Outcome.COMPLETED, reason=EXITED)
            for job in answer.jobs
        )
        await sync(rig.plane, session.id, Sync(reports=ends))
        if answer.queues[0].answer == "empty":
            return
    raise AssertionError(f"worker {number} never came to an end")


async def race(quota: Quota, person: Quota, slots: list[int], draws: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = sqlite_rig(Path(folder), ManualClock())
        await members.edit_project(
            rig.plane, "default", EditProject(quota=quota, person_quota=person)
        )
        made = []
        for who in ("ann", "bob"):
            new = NewExperiment(title="e", creator=who)
            made.append(await experiments.create_experiment(rig.plane, new, who))
            jobs = units(*[spec(pool=pool) for pool in POOLS * 2])
            await experiments.add_units(rig.plane, made[-1].id, jobs, "batch")
        Watch(rig, quota, person, draws)
        await asyncio.gather(*(work(rig, n, each) for n, each in enumerate(slots)))
        rig.recording.reset()
        done = [queries.jobs_in_state(each.id, JobState.COMPLETED) for each in made]
        assert [await rig.store.count(query) for query in done] == [4, 4]
        await rig.close()


@settings(max_examples=12, deadline=None, phases=(Phase.generate,))
@given(
    quota=st.integers(1, 3),
    person=st.none() | st.integers(1, 2),
    slots=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_never_more_run_than_the_quota_and_all_are_run(
    quota: int, person: int | None, slots: list[int], seed: int
) -> None:
    limits = Quota(running=quota), Quota(running=person)
    asyncio.run(race(*limits, slots, random.Random(seed)))


@pytest.mark.parametrize("seed", range(3))
def test_a_quota_of_each_person_alone(seed: int) -> None:
    asyncio.run(race(Quota(), Quota(running=1), [2, 2], random.Random(seed)))
