"""What people run and used, on every store."""

from datetime import timedelta

import pytest

from tests.functions.api import Api, new_job
from tests.functions.groups import ask, end
from xmcloud.core.models import Experiment
from xmcloud.core.usage import ProjectUsage

pytestmark = pytest.mark.anyio
GPU = {"gpu": 1}


async def test_usage_is_told_by_person(api: Api) -> None:
    limits = {"quota": {"running": 8}, "person_quota": {"gpu_hours": 4}}
    await api.call("PATCH", "/projects/default", limits)
    bob = await api.post(Experiment, "/experiments", {"title": "e", "creator": "bob"}, 201)
    ann = await api.post(Experiment, "/experiments", {"title": "e", "creator": "ann"}, 201)
    await api.jobs(bob, *(new_job(name, resources=GPU) for name in "ab"))
    ant = await api.session()
    for _ in range(2):
        (taken,) = (await ask(api, ant, 8, resources=GPU)).jobs
        api.clock.advance(timedelta(seconds=18))
        if taken.name == "a":
            await end(api, ant, taken)
    await api.jobs(ann, *(new_job(name) for name in "cde"))
    found = await api.get(ProjectUsage, "/projects/default/usage")
    assert (found.project, found.month, found.quota.running) == ("default", "2030-01", 8)
    assert (found.running, found.queued) == (1, 3)
    assert found.gpu_hours == pytest.approx(0.01)
    people = [(each.person, each.running, each.queued, each.gpu_hours) for each in found.people]
    assert people == [("ann", 0, 3, 0), ("bob", 1, 0, pytest.approx(0.01))]
    past = await api.get(ProjectUsage, "/projects/default/usage", month="2029-12")
    assert (past.month, past.gpu_hours) == ("2029-12", 0)
    wrong = await api.refused("GET", "/projects/default/usage?month=2029-13", 422)
    assert wrong.field == "query.month"
    await api.refused("GET", "/projects/nowhere/usage", 404)
