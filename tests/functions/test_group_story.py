"""The life of a group on two workers, over each set of adapters."""

import pytest

from tests.functions.api import Api
from tests.functions.groups import ask, end, group, start, states
from xmcloud.core.models import JobState, Session

pytestmark = pytest.mark.anyio


async def test_a_group_gathers_is_lost_and_runs_again_to_its_end(api: Api) -> None:
    jobs = await group(api, 2)
    ant, bee = [await api.session(name, slots=1) for name in ("ant", "bee")]
    assert len((await ask(api, ant, 1)).reservations) == 1
    (b,) = (await ask(api, bee, 1)).jobs
    (a,) = (await api.sync(ant, known=())).jobs
    await start(api, ant, a)
    await start(api, bee, b)
    await api.post(Session, f"/sessions/{ant.id}/close")
    await end(api, bee, b, "stopped")
    assert await states(api, jobs) == [JobState.QUEUED] * 2
    cat = await api.session("cat", slots=2)
    for job in (await ask(api, cat, 2)).jobs:
        assert job.fence == 2
        await end(api, cat, job)
    assert await states(api, jobs) == [JobState.COMPLETED] * 2
