"""Documents of an earlier version get today's form while others read and write them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.builders import queued, running, spec, units
from tests.support.clock import START, ManualClock
from tests.support.planes import Rig, sqlite_rig
from xmcloud.core.control import experiments, migrating
from xmcloud.core.control.migrating import load_schema, migrate, require_known_schema
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sweep import sweep
from xmcloud.core.documents import JOBS
from xmcloud.core.errors import Unavailable
from xmcloud.core.migrations import (
    GRACE,
    LATEST,
    MIGRATIONS,
    SCHEMA,
    NewerSchema,
    Schema,
    SchemaSeen,
)
from xmcloud.core.ports import Document, JsonObject, Query, Write
from xmcloud.core.protocol import NewExperiment

pytestmark = pytest.mark.anyio
JOBS_MADE = 5
NEW_FIELDS = ("project", "creator", "holds_gpus")


@dataclass
class Upgrade:
    """A store with documents of the version before, and control planes of this one."""

    rig: Rig
    experiment: str

    def process(self) -> ControlPlane:
        """Another one; it knows nothing yet."""
        return replace(self.rig.plane, schema=SchemaSeen())

    async def jobs(self) -> list[Document]:
        return (await self.rig.store.find(Query("jobs"))).documents

    async def old_jobs(self) -> int:
        return sum("project" not in each.data for each in await self.jobs())

    async def schema(self) -> Schema:
        return (await load_schema(replace(self.rig.plane, store=self.rig.store)))[0]

    def before_jobs_change(self, work: Callable[[], Awaitable[object]], applies: int = 2) -> None:
        """Does that ahead of the store's next but so many change; the first is of experiments."""
        recording = self.rig.recording
        number = recording.calls["store.apply"] + applies

        async def before(operation: str) -> None:
            if operation == "store.apply" and recording.calls[operation] == number:
                recording.reset()
                await work()

        recording.before = before

    async def written_by_an_old_instance(self, number: int = 0) -> None:
        """One that still runs does something to a job."""
        job = (await self.jobs())[number]
        await self.rig.store.commit([Write.replace("jobs", job, old_form(job.data))])


def old_form(data: JsonObject) -> JsonObject:
    body = json.loads(str(data["body"]))
    kept = {name: value for name, value in body.items() if name != "project"}
    if "experiment_id" in body:
        kept.pop("creator", None)
    rest = {name: value for name, value in data.items() if name not in NEW_FIELDS}
    return {**rest, "body": json.dumps(kept)}


@pytest.fixture
async def upgrade(tmp_path: Path) -> AsyncIterator[Upgrade]:
    rig = sqlite_rig(tmp_path, ManualClock())
    new = NewExperiment(title="e", creator="ann")
    experiment = await experiments.create_experiment(rig.plane, new, "key")
    await experiments.add_units(rig.plane, experiment.id, units(*[spec()] * JOBS_MADE), "batch")
    for collection in ("experiments", "jobs"):
        documents = (await rig.store.find(Query(collection))).documents
        writes = [Write.replace(collection, each, old_form(each.data)) for each in documents]
        await rig.store.apply(writes)
    yield Upgrade(rig, experiment.id)
    await rig.close()


async def test_a_pass_makes_todays_form_and_another_confirms_it(upgrade: Upgrade) -> None:
    rig = upgrade.rig
    assert await upgrade.old_jobs() == JOBS_MADE
    await sweep(rig.plane)
    jobs = await upgrade.jobs()
    for document in jobs:
        job = JOBS.read(document).item
        assert (job.project, job.creator) == ("default", "ann")
        assert {**document.data, "body": ""} == {**JOBS.data(job), "body": ""}
    (experiment,) = (await rig.store.find(Query("experiments"))).documents
    assert experiment.data["project"] == "default"
    waiting = await upgrade.schema()
    assert (waiting.version, waiting.next_at) == (0, START + GRACE)
    rig.clock.advance(GRACE)
    await sweep(rig.plane)
    assert (await upgrade.schema()).version == LATEST
    assert await upgrade.jobs() == jobs


@pytest.mark.parametrize("resources", [{}, {"cpu": 1.0}, {"t4": 2.0}, {"gpu": 0.5}])
def test_a_job_that_runs_holds_its_gpus(resources: dict[str, float]) -> None:
    for job in (queued(spec(resources=resources)), running(spec(resources=resources))):
        now = JOBS.data(job)
        made = MIGRATIONS[1].change(old_form(now), {"body": '{"creator": "unknown"}'})
        assert made is not None
        assert {**made, "body": ""} == {**now, "body": ""}


async def test_a_job_that_a_request_wrote_before_the_pass_did(upgrade: Upgrade) -> None:
    """It read no creator and wrote none, in today's form."""
    job = (await upgrade.jobs())[1]
    written = JOBS.data(JOBS.read(job).item)
    assert written["creator"] == "unknown"
    await upgrade.rig.store.commit([Write.replace("jobs", job, written)])
    await migrate(upgrade.rig.plane)
    assert {each.data["creator"] for each in await upgrade.jobs()} == {"ann"}


async def test_a_store_that_is_up_to_date_costs_one_read_a_process(upgrade: Upgrade) -> None:
    rig = upgrade.rig
    await migrate(rig.plane)
    rig.clock.advance(GRACE)
    await migrate(rig.plane)
    rig.costs.clear()
    process = upgrade.process()
    for _ in range(3):
        await migrate(process)
        await require_known_schema(process)
    assert rig.costs == {"read": 1}


async def test_nothing_is_read_until_the_next_pass_is_due(upgrade: Upgrade) -> None:
    rung: list[tuple[str, datetime]] = []
    plane = replace(upgrade.rig.plane, alarm=lambda *alarm: rung.append(alarm))
    await migrate(plane)
    assert rung == [("schema", START + GRACE)]
    upgrade.rig.costs.clear()
    await migrate(plane)
    assert not upgrade.rig.costs


async def test_what_an_old_instance_writes_after_a_pass_is_found_by_the_next(
    upgrade: Upgrade,
) -> None:
    clock = upgrade.rig.clock
    await migrate(upgrade.rig.plane)
    await upgrade.written_by_an_old_instance()
    clock.advance(GRACE)
    await migrate(upgrade.rig.plane)
    assert await upgrade.old_jobs() == 0
    assert (await upgrade.schema()).version == 0  # who wrote that may write more
    clock.advance(GRACE)
    await migrate(upgrade.rig.plane)
    assert (await upgrade.schema()).version == LATEST


async def test_what_a_request_writes_meanwhile_is_kept(upgrade: Upgrade) -> None:
    job = (await upgrade.jobs())[2]

    async def request() -> None:
        named = JOBS.read(job).item.evolve(name="new")
        await upgrade.rig.store.commit([Write.replace("jobs", job, old_form(JOBS.data(named)))])

    upgrade.before_jobs_change(request)
    await migrate(upgrade.rig.plane)
    found = JOBS.read((await upgrade.jobs())[2]).item
    assert (found.name, found.creator) == ("new", "ann")
    assert await upgrade.old_jobs() == 0


async def test_a_job_that_requests_write_all_the_time_is_left_to_the_next_call(
    upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = upgrade.rig
    monkeypatch.setattr(migrating, "TRIES", 2)
    monkeypatch.setattr(migrating, "PAGES", 3)

    async def before(operation: str) -> None:
        if operation == "store.apply":
            await upgrade.written_by_an_old_instance()

    rig.recording.before = before
    await migrate(rig.plane)
    assert await upgrade.old_jobs() == 1
    rig.recording.reset()
    await migrate(rig.plane)
    assert await upgrade.old_jobs() == 0


async def test_a_run_is_bounded_and_goes_on_where_it_was(
    upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[tuple[str, datetime]] = []
    plane = replace(upgrade.rig.plane, alarm=lambda *alarm: rung.append(alarm))
    monkeypatch.setattr(migrating, "PAGE", 2)
    monkeypatch.setattr(migrating, "PAGES", 2)
    await migrate(plane)
    assert await upgrade.old_jobs() == JOBS_MADE - 2
    assert rung == [("schema", START)]
    await migrate(replace(plane, schema=SchemaSeen()))
    assert await upgrade.old_jobs() == 0


async def test_a_pass_that_was_cut_short_is_not_taken_for_clean(upgrade: Upgrade) -> None:
    """It had changed documents, and told nobody, before it ended."""
    rig = upgrade.rig
    await migrate(rig.plane)
    await upgrade.written_by_an_old_instance()
    rig.clock.advance(GRACE)

    async def die() -> None:
        """When the change is made, and nothing else yet."""
        job = (await upgrade.jobs())[0]
        changed = MIGRATIONS[1].change(job.data, {"body": '{"creator": "ann"}'})
        assert changed is not None
        await rig.store.commit([Write.replace("jobs", job, changed)])
        raise Unavailable("The store does not answer.")

    upgrade.before_jobs_change(die, applies=1)
    with pytest.raises(Unavailable):
        await migrate(rig.plane)
    await migrate(upgrade.process())
    state = await upgrade.schema()
    assert await upgrade.old_jobs() == 0
    assert (state.version, state.next_at) == (0, rig.clock.now() + GRACE)


async def test_several_at_once_do_it_once(upgrade: Upgrade) -> None:
    clock = upgrade.rig.clock
    for _ in range(2):
        await asyncio.gather(*(migrate(upgrade.process()) for _ in range(3)))
        clock.advance(GRACE)
    await migrate(upgrade.process())
    assert await upgrade.old_jobs() == 0
    assert (await upgrade.schema()).version == LATEST


async def test_a_job_whose_experiment_is_gone_and_one_that_nobody_understands(
    upgrade: Upgrade, caplog: pytest.LogCaptureFixture
) -> None:
    rig = upgrade.rig
    orphan, broken, *_ = await upgrade.jobs()
    body = json.dumps({**json.loads(str(orphan.data["body"])), "experiment_id": "gone"})
    await rig.store.commit(
        [
            Write.replace("jobs", orphan, {**orphan.data, "experiment_id": "gone", "body": body}),
            Write.replace("jobs", broken, {"id": broken.id, "body": "nonsense"}),
        ]
    )
    with caplog.at_level(logging.WARNING, "xmcloud.migrations"):
        await migrate(rig.plane)
    left = {each.id: each.data for each in await upgrade.jobs()}
    assert (left[orphan.id]["project"], left[orphan.id]["creator"]) == ("default", "unknown")
    assert left[broken.id] == {"id": broken.id, "body": "nonsense"}
    assert f"jobs/{broken.id} cannot be understood" in caplog.text


async def test_a_store_of_a_newer_version_is_refused(upgrade: Upgrade) -> None:
    newer = Schema(version=LATEST + 1, by="9.1.0", goal=LATEST + 1)
    await upgrade.rig.store.commit([SCHEMA.create(newer)])
    refusal = rf"xmcloud 9\.1\.0 .* to schema {LATEST + 1};.* to {LATEST}\..* 9\.1\.0 or newer"
    with pytest.raises(NewerSchema, match=refusal):
        await require_known_schema(upgrade.process())
    with pytest.raises(NewerSchema):
        await migrate(upgrade.process())


async def test_a_version_that_had_not_finished_may_be_taken_back(upgrade: Upgrade) -> None:
    """Until then nobody relies on the newer form: the older version goes for its own again."""
    unfinished = Schema(by="9.1.0", goal=LATEST + 1, step=LATEST + 1, changed=True)
    await upgrade.rig.store.commit([SCHEMA.create(unfinished)])
    await require_known_schema(upgrade.process())
    await migrate(upgrade.process())
    upgrade.rig.clock.advance(GRACE)
    await migrate(upgrade.process())
    assert (await upgrade.schema()).version == LATEST
