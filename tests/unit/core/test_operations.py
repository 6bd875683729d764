"""What a job costs: documents read and written, as a database would bill them."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.builders import spec, units
from tests.support.clock import ManualClock
from tests.support.planes import HEARTBEAT, Rig, sqlite_rig
from xmcloud.core.control import experiments, sessions, sync
from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.ports import Subscription
from xmcloud.core.protocol import NewExperiment
from xmcloud.core.worker_protocol import (
    Claim,
    Finished,
    OpenSession,
    Output,
    Started,
    Sync,
    SyncAnswer,
)

pytestmark = pytest.mark.anyio
PERMITS = [Subscription("queue-default", "local")]
EXITED = Reason(code=ReasonCode.EXITED, message="exit code 0", exit_code=0)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = sqlite_rig(tmp_path, ManualClock())
    yield rig
    await rig.close()


@pytest.fixture
async def session(rig: Rig) -> str:
    """Of a worker that waits for its first job."""
    request = OpenSession(queues=("default",))
    lease = await sessions.open_session(rig.plane, "ant", request)
    await ask(rig, lease.session.id, Sync(claim=Claim(slots=1, queues=("default",))))
    assert await rig.plane.queue.pull(PERMITS, 1, 0) == []
    return lease.session.id


async def ask(rig: Rig, session: str, request: Sync) -> SyncAnswer:
    answer = await sync.sync(rig.plane, session, request)
    assert all(result.problem is None for result in answer.results)
    return answer


async def run_one(rig: Rig, session: str) -> None:
    """The worker's exchanges for one job, from its permit to its end."""
    permits = await rig.plane.queue.pull(PERMITS, 1, 0)
    claim = Claim(slots=1, queues=("default",))
    (job,) = (await ask(rig, session, Sync(claim=claim))).jobs
    await rig.plane.queue.acknowledge(permits)
    at = rig.clock.now()
    started = Started(job_id=job.id, fence=job.fence, at=at)
    await ask(rig, session, Sync(reports=(started,)))
    output = Output(job_id=job.id, fence=job.fence, offset=0, data=b"b25lCg==")
    finished = Finished(job_id=job.id, fence=job.fence, outcome=Outcome.COMPLETED, reason=EXITED)
    await ask(rig, session, Sync(reports=(output, finished)))


async def test_a_job_from_its_creation_to_its_end(rig: Rig, session: str) -> None:
    experiment = await experiments.create_experiment(rig.plane, NewExperiment(title="e"), "key")
    before = Counter(rig.costs)
    await experiments.add_units(rig.plane, experiment.id, units(spec(pool="local")), "batch")
    await run_one(rig, session)
    cost = rig.costs - before
    assert cost["write"] <= 6
    assert cost["read"] <= 12
    (job,) = (
        await experiments.list_jobs(rig.plane, experiment.id, unit=None, limit=2, cursor=None)
    ).jobs
    assert job.state.value == "completed"


async def test_a_batch_costs_no_more_a_job(rig: Rig, session: str) -> None:
    experiment = await experiments.create_experiment(rig.plane, NewExperiment(title="e"), "key")
    before = Counter(rig.costs)
    await experiments.add_units(rig.plane, experiment.id, units(*[spec()] * 20), "batch")
    for _ in range(20):
        await run_one(rig, session)
    cost = rig.costs - before
    assert cost["write"] <= 6 * 20
    assert cost["read"] <= 12 * 20


async def test_an_idle_worker_costs_a_heartbeat(rig: Rig, session: str) -> None:
    """One document read and written again a period; waiting for permits costs nothing."""
    for _ in range(10):
        before = Counter(rig.costs)
        rig.clock.advance(HEARTBEAT)
        assert await rig.plane.queue.pull(PERMITS, 1, 0) == []
        await ask(rig, session, Sync())
        assert rig.costs - before == Counter(read=1, write=1)
    calls = Counter(rig.recording.calls)
    await ask(rig, session, Sync())
    assert rig.recording.calls - calls == Counter({"store.get": 1})
