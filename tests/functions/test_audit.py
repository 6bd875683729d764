"""The audit log: every change that people make, in the same commit as the change."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.functions.api import Api, new_job
from xmcloud.core.audit import ENTRY_BYTES, VALUE_BYTES, AuditEntry
from xmcloud.core.control.auditing import AuditedStore
from xmcloud.core.documents import JOBS
from xmcloud.core.models import Experiment, Job
from xmcloud.core.ports import Document, Page, PreconditionFailed, Query, Store, Version, Write
from xmcloud.core.protocol import NewJob

SECOND = timedelta(seconds=1)
pytestmark = pytest.mark.anyio


async def entries(api: Api, **query: str) -> list[AuditEntry]:
    """The oldest first."""
    response = await api.http.get("/v1/audit", params={**query, "limit": 400})
    assert response.status_code == 200, response.text
    return [AuditEntry.model_validate(each) for each in reversed(response.json()["entries"])]


async def jobs_of(api: Api, *new: NewJob) -> list[Job]:
    """Made a second after their experiment, a second before what comes next."""
    experiment = await api.experiment()
    api.clock.advance(SECOND)
    jobs = await api.jobs(experiment, *new)
    api.clock.advance(SECOND)
    return jobs


async def draft(api: Api) -> Job:
    (job,) = await jobs_of(api, new_job(queue=None))
    return job


async def test_each_change_says_who_what_and_both_states(api: Api) -> None:
    job = await draft(api)
    await api.post(Job, f"/jobs/{job.id}/enqueue", {"by": "ada"})
    enqueued = (await entries(api))[-1]
    assert (enqueued.who, enqueued.action) == ("owner", "enqueue_job")
    assert (enqueued.project, enqueued.subject) == ("default", f"jobs/{job.id}")
    (change,) = enqueued.changes
    assert change.before is not None
    assert (change.before["state"], change.after["state"]) == ("draft", "queued")
    assert enqueued.at == api.clock.now()


async def test_what_is_made_has_nothing_before(api: Api) -> None:
    await draft(api)
    created, added = await entries(api)
    assert (created.action, created.changes[0].before) == ("create_experiment", None)
    assert added.action == "add_units"
    assert [change.document.split("/")[0] for change in added.changes] == ["experiments", "jobs"]
    assert added.changes[0].after == {"units": 1}


async def test_of_a_definition_only_what_differs_is_told(api: Api) -> None:
    job = await draft(api)
    spec = job.spec.evolve(environment={"LR": "0.1"}, limits=job.spec.limits.evolve(retries=3))
    body = {"spec": spec.model_dump(mode="json")}
    await api.call("PATCH", f"/jobs/{job.id}", body)
    (change,) = (await entries(api))[-1].changes
    assert change.after == {"spec.environment.LR": "0.1", "spec.limits.retries": 3}
    assert change.before is not None
    assert change.before["spec.environment.LR"] is None
    assert change.before["spec.limits.retries"] == 0


async def test_nothing_is_told_of_a_request_that_was_refused(api: Api) -> None:
    job = await draft(api)
    before = await entries(api)
    await api.refused("POST", f"/jobs/{job.id}/dequeue", 409, json={})
    assert await entries(api) == before


async def test_what_workers_and_the_control_plane_do_is_in_the_history_of_jobs(api: Api) -> None:
    (job,) = await jobs_of(api, new_job())
    before = await entries(api)
    await api.ended(job, await api.session())
    assert await entries(api) == before


async def test_by_project_by_person_and_by_subject(api: Api) -> None:
    job = await draft(api)
    for wanted in ({"project": "default"}, {"who": "owner"}):
        assert len(await entries(api, **wanted)) == 2
    told = await entries(api, subject=f"experiments/{job.experiment_id}")
    assert [each.action for each in told] == ["create_experiment", "add_units"]
    assert await entries(api, project="elsewhere") == []
    refused = await api.http.get("/v1/audit", params={"project": "default", "who": "owner"})
    assert refused.status_code == 422


async def test_pages(api: Api) -> None:
    await draft(api)
    first = (await api.http.get("/v1/audit", params={"limit": 1})).json()
    rest = (await api.http.get("/v1/audit", params={"cursor": first["cursor"]})).json()
    actions = [each["action"] for each in (*first["entries"], *rest["entries"])]
    assert actions == ["add_units", "create_experiment"]


async def test_a_long_value_is_told_by_its_digest(api: Api) -> None:
    experiment = await api.experiment()
    api.clock.advance(SECOND)
    body = {"notes": "x" * (VALUE_BYTES + 1)}
    await api.http.patch(f"/v1/experiments/{experiment.id}", json=body)
    ((change,),) = [each.changes for each in (await entries(api))[-1:]]
    assert str(change.after["notes"]).startswith(f"({VALUE_BYTES + 3} characters, SHA-256 ")


async def test_a_large_batch_is_counted(api: Api) -> None:
    jobs = await jobs_of(api, *(new_job(f"job-{n}") for n in range(300)))
    entry = next(each for each in await entries(api) if each.action == "add_units")
    assert len(entry.changes) + entry.left_out == len(jobs) + 1
    assert len(entry.model_dump_json()) < 2 * ENTRY_BYTES


class Racing:
    """A store where somebody else is faster once, with one of the documents."""

    def __init__(self, store: Store, loser: str) -> None:
        self._store, self._loser = store, loser

    async def get(self, collection: str, ids: Sequence[str]) -> list[Document | None]:
        return await self._store.get(collection, ids)

    async def find(self, query: Query) -> Page:
        return await self._store.find(query)

    async def commit(self, writes: Sequence[Write]) -> list[Version]:
        if any(write.id == self._loser for write in writes):
            raise PreconditionFailed
        return await self._store.commit(writes)


async def test_of_independent_changes_those_are_told_that_held(api: Api) -> None:
    jobs = await jobs_of(api, *(new_job(f"job-{n}") for n in range(3)))
    racing = Racing(api.plane.store, jobs[1].id)
    store = AuditedStore(racing, "ada", "test", api.clock)  # type: ignore[arg-type]
    found = await JOBS.get_many(store, [job.id for job in jobs])
    writes = [JOBS.replace(s, s.item.evolve(position=7)) for s in found if s is not None]
    versions = await store.apply(writes)
    assert [version is None for version in versions] == [False, True, False]
    told = [each for each in await entries(api) if each.action == "test"]
    assert {each.subject for each in told} == {f"jobs/{jobs[0].id}", f"jobs/{jobs[2].id}"}


async def test_the_entry_and_the_change_are_one_commit(api: Api) -> None:
    experiment = await api.experiment()
    commits: list[Sequence[Write]] = []

    class Watched(Racing):
        async def commit(self, writes: Sequence[Write]) -> list[Version]:
            commits.append(writes)
            return await super().commit(writes)

    api.app.state.plane = replace(api.plane, store=Watched(api.plane.store, ""))  # type: ignore[arg-type]
    edited = await api.http.patch(f"/v1/experiments/{experiment.id}", json={"title": "new"})
    assert Experiment.model_validate_json(edited.content).title == "new"
    assert [[write.collection for write in each] for each in commits] == [["experiments", "audit"]]


async def test_the_note_that_a_permit_went_out_is_no_change_of_anybody(api: Api) -> None:
    await jobs_of(api, new_job())
    assert [each.action for each in await entries(api)] == ["create_experiment", "add_units"]
