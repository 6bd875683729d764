"""Why a job waits, as the API and `xmcloud show` tell it: the facts are found in the store."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import sqlite_plane
from tests.functions.groups import add, ask, end, group, start
from tests.functions.xm_cloud.server import TOKEN, serving
from tests.support.builder import MemoryBuilder
from tests.support.builders import DIGEST, queued, running, spec, units
from tests.support.clock import START, ManualClock
from tests.support.platform import MemoryPlatform
from tests.support.recording import RecordedStore, Recording
from xmcloud.cli import rows
from xmcloud.cli.main import cli
from xmcloud.core.builds import Build
from xmcloud.core.control import pending
from xmcloud.core.control.dispatch import dispatch
from xmcloud.core.control.gathering import HOLD
from xmcloud.core.control.overflow import overflow_due
from xmcloud.core.control.plane import Target
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import (
    Act,
    CauseCode,
    NewExperiment,
    NewJob,
    Pending,
    PendingExperiment,
)
from xmcloud.xm_cloud.client import Client

pytestmark = pytest.mark.anyio

C = CauseCode
IMAGE = {"kind": "image", "image": "registry.example/train@sha256:1"}


@dataclass
class Desk:
    """A control plane with one target, "cloud", and who asks it why."""

    api: Api
    platform: MemoryPlatform
    targets: dict[str, Target]
    recording: Recording

    async def why(self, job: Job) -> Pending:
        return await self.api.get(Pending, f"/jobs/{job.id}/pending")

    async def codes(self, job: Job) -> list[CauseCode]:
        return [cause.code for cause in (await self.why(job)).causes]

    async def message(self, job: Job) -> str:
        """That of the only cause."""
        (cause,) = (await self.why(job)).causes
        return cause.message

    async def in_experiment(self, job: Job) -> PendingExperiment:
        return await self.api.get(PendingExperiment, f"/experiments/{job.experiment_id}/pending")

    def allow(self, limit: int, per_minute: float = 600) -> None:
        self.targets["cloud"] = Target(self.platform, limit, per_minute)


@pytest.fixture
async def desk(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Desk]:
    clock, signals, recording = ManualClock(), HeardSignals(), Recording()
    platform, targets = MemoryPlatform(), dict[str, Target]()
    plane = sqlite_plane(tmp_path, clock, signals)
    store = RecordedStore(plane.store, recording)
    plane = replace(plane, store=store, targets=targets, builder=MemoryBuilder())
    async with opened_api(plane, clock, signals, tmp_path) as api:
        desk = Desk(api, platform, targets, recording)
        desk.allow(limit=4)
        yield desk


def for_cloud(name: str = "train", **spec: Any) -> NewJob:
    return new_job(name, **{"executable": IMAGE, "pool": "cloud", **spec})


async def test_from_a_draft_to_its_start(desk: Desk) -> None:
    (job,) = await add(desk.api, [new_job(queue=None, pool="gpu")])
    assert await desk.message(job) == "nobody enqueued it"
    assert (await desk.why(job)).place is None
    await desk.api.post(Job, f"/jobs/{job.id}/enqueue")
    assert await desk.message(job) == "no worker of pool gpu is connected"
    await desk.api.call("POST", "/queues/default/pause", {})
    assert await desk.codes(job) == [C.QUEUE_PAUSED, C.NO_WORKER]
    await desk.api.call("POST", "/queues/default/resume", {})
    await desk.api.session("elk", pool="local")
    await desk.api.session("ant", pool="gpu", queues=["low"])
    assert await desk.codes(job) == [C.QUEUE_NOT_SERVED]
    bee = await desk.api.session("bee", pool="gpu")
    assert await desk.codes(job) == [C.STARTING_SOON]
    await desk.api.running(job, bee)
    told = await desk.why(job)
    assert (told.state, told.causes, told.place) == (JobState.RUNNING, [], None)


async def test_its_place_and_what_is_taken(desk: Desk) -> None:
    jobs = await add(desk.api, *[[new_job(name)] for name in "abcd"])
    ant = await desk.api.session("ant", slots=2)
    assert len((await ask(desk.api, ant, 2)).jobs) == 2
    assert await desk.message(jobs[3]) == (
        "all 2 slots of worker ant are taken; place 2 of 2 in default"
    )
    told = await desk.why(jobs[3])
    assert told.place is not None
    assert (told.place.queue, told.place.place, told.place.waiting) == ("default", 2, 2)
    assert told.causes[0].remedy == f"Move it ahead: xmcloud queue move {jobs[3].id[:8]} front"


async def test_resources_that_others_use(desk: Desk) -> None:
    fields: dict[str, Any] = {"resources": {"gpu": 1}}
    first, second, small = await add(
        desk.api, [new_job("a", **fields)], [new_job("b", **fields)], [new_job("c")]
    )
    desk.api.clock.advance(1)
    big = await desk.api.job(resources={"gpu": 2})
    ant = await desk.api.session("ant", slots=4, resources={"gpu": 1})
    assert await desk.message(big) == "it asks for 2 gpu; the largest worker of any pool has 1 gpu"
    taken = (await ask(desk.api, ant, 1, resources={"gpu": 1})).jobs
    assert [job.id for job in taken] == [first.id]
    assert await desk.message(second) == (
        "other jobs use 1 gpu of worker ant; place 1 of 3 in default"
    )
    assert await desk.codes(small) == [C.BEHIND_OTHERS]


async def test_an_image_that_is_being_built(desk: Desk) -> None:
    new = {"spec": {"archive": DIGEST, "name": "train"}}
    build = await desk.api.post(Build, "/builds", new, 201)
    (job,) = await add(desk.api, [new_job(executable={"kind": "image", "build": build.id})])
    desk.api.clock.advance(180)
    assert await desk.message(job) == (
        f"its image is being built: build {build.id[:8]} is working, asked for 3 min ago"
    )


async def test_a_group_from_gathering_to_its_rest(desk: Desk) -> None:
    jobs = await group(desk.api, 2)
    ant = await desk.api.session("ant", slots=1)
    assert await desk.message(jobs[0]) == (
        "its group of 2 starts as a whole; the workers of any pool have 1 slot in all"
    )
    bee = await desk.api.session("bee", slots=1)
    assert await desk.codes(jobs[0]) == [C.STARTING_SOON]
    desk.api.clock.advance(1)
    (later,) = await add(desk.api, [new_job("alone")])
    desk.api.clock.advance(1)
    pair = await group(desk.api, 2)
    assert len((await ask(desk.api, ant, 1)).reservations) == 1
    assert await desk.message(jobs[1]) == "its group has 1 of 2 places, kept for it for 20 s more"
    assert await desk.codes(pair[0]) == [C.OTHER_GROUP]
    assert await desk.codes(later) == [C.BEHIND_OTHERS]
    desk.api.clock.advance(HOLD)
    await desk.api.sync(bee)
    for job in jobs:
        assert await desk.message(job) == (
            "its group gathered once in vain and lets others go first, for 20 s more"
        )
    assert await desk.codes(pair[0]) == [C.BEHIND_OTHERS]


async def test_a_slot_that_is_kept_for_a_group_is_not_free(desk: Desk) -> None:
    await group(desk.api, 2)
    ant = await desk.api.session("ant", slots=1)
    bee = await desk.api.session("bee", slots=1, queues=["low", "default"])
    await add(desk.api, [new_job("alone", "low")])
    (low,) = await desk.api.claimed(bee, "low")
    (next_,) = await add(desk.api, [new_job("next", "low")])
    assert len((await ask(desk.api, ant, 1)).reservations) == 1
    assert await desk.message(next_) == (
        "all 2 slots of the 2 workers that could run it are taken; place 1 of 1 in low"
    )
    await start(desk.api, bee, low)
    await end(desk.api, bee, low)
    assert await desk.codes(next_) == [C.STARTING_SOON]


async def test_a_group_that_still_ends(desk: Desk) -> None:
    await group(desk.api, 2, limits={"retries": 1})
    ant = await desk.api.session("ant", slots=2)
    a, b = (await ask(desk.api, ant, 2)).jobs
    await start(desk.api, ant, a, b)
    await end(desk.api, ant, a, "failed")
    assert await desk.message(a) == ("its group starts as a whole, and b is running (stopping)")


async def test_a_target_that_is_full_or_keeps_its_pace(desk: Desk) -> None:
    desk.allow(limit=1)
    _, second, third = await add(desk.api, *[[for_cloud(name)] for name in "abc"])
    assert await dispatch(desk.api.plane, "cloud") == 1
    assert await desk.message(third) == (
        "cloud is at its limit: 1 of 1 running; place 2 of 2 in default"
    )
    desk.allow(limit=4, per_minute=1)
    assert await dispatch(desk.api.plane, "cloud") == 1
    del desk.targets["cloud"]
    assert await desk.codes(third) == [C.NO_WORKER]
    desk.allow(limit=4, per_minute=1)
    assert await desk.message(third) == (
        "cloud takes 1 submission a minute, the next in 60 s; place 1 of 1 in default"
    )
    desk.api.clock.advance(60)
    assert await desk.codes(third) == [C.STARTING_SOON]
    assert await desk.codes(second) == []


async def test_a_target_without_quota(desk: Desk) -> None:
    (job,) = await add(desk.api, [for_cloud(resources={"cpu": 1, "t4": 1})])
    desk.platform.mishaps.quota = 1
    await dispatch(desk.api.plane, "cloud")
    told = await desk.why(job)
    assert [cause.code for cause in told.causes] == [C.TARGET_BLOCKED]
    assert told.causes[0].message.startswith("cloud refuses t4 for 60 s more: ")
    desk.api.clock.advance(1)
    (other,) = await add(desk.api, [for_cloud()])
    assert await desk.codes(other) == [C.BEHIND_OTHERS]


async def test_what_overflows(desk: Desk) -> None:
    overflow = {"target": "cloud", "after_seconds": 600}
    (job,) = await add(desk.api, [for_cloud(pool="local", overflow=overflow)])
    assert await desk.codes(job) == [C.NO_WORKER, C.OVERFLOWS]
    desk.api.clock.advance(600)
    assert await overflow_due(desk.api.plane) == 1
    assert await desk.codes(job) == [C.STARTING_SOON]
    desk.targets.clear()
    assert await desk.message(job) == "this control plane has no target cloud"


async def test_an_experiment_groups_its_jobs_by_what_they_wait_for(desk: Desk) -> None:
    gpu = {"pool": "gpu"}
    jobs = await add(
        desk.api,
        [new_job("a", **gpu)],
        [new_job("b")],
        [new_job("c", **gpu)],
        [new_job("d", None)],
        [new_job("e"), new_job("f")],
    )
    ant = await desk.api.session("ant", slots=1)
    assert [job.name for job in (await ask(desk.api, ant, 1)).jobs] == ["b"]
    told = await desk.in_experiment(jobs[0])
    names = {job.id: job.name for job in jobs}
    found = {each.causes[0].code: sorted(names[id] for id in each.jobs) for each in told.pending}
    assert found == {C.NO_WORKER: ["a", "c"], C.DRAFT: ["d"], C.GROUP_TOO_LARGE: ["e", "f"]}
    assert told.left_out == 0


async def test_what_jobs_have_in_common_is_read_once(desk: Desk) -> None:
    for name in ("ant", "bee"):
        await desk.api.session(name)
    counts = []
    for size in (2, 60):
        jobs = await add(desk.api, *[[new_job()] for _ in range(size)])
        before = Counter(desk.recording.calls)
        await desk.in_experiment(jobs[0])
        counts.append(desk.recording.calls - before)
    assert counts[0] == counts[1]


async def test_an_answer_is_bounded_and_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "JOBS_TOLD", 3)
    monkeypatch.setattr(pending, "PAGE", 2)
    jobs = await add(desk.api, *[[new_job()] for _ in range(4)], [new_job(queue=None)])
    told = await desk.in_experiment(jobs[0])
    assert ([len(each.jobs) for each in told.pending], told.left_out) == ([3], 2)


@pytest.mark.parametrize("kind", ["jobs", "experiments"])
async def test_what_is_not_there(desk: Desk, kind: str) -> None:
    await desk.api.refused("GET", f"/{kind}/{'z' * 16}/pending", 404)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("control-plane")) as address:
        yield address


def test_show_says_it_in_one_sentence_and_in_the_table(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_URL", url)
    monkeypatch.setenv("XMCLOUD_TOKEN", TOKEN)
    with Client(url, TOKEN) as client:
        experiment = client.create_experiment(NewExperiment(title="sweep")).id
        client.add_units(experiment, units(spec(pool="gpu")))
        client.add_units(experiment, units(spec(), queue=None))
    shown = CliRunner().invoke(cli, ["show", f"{experiment}/1"]).stdout
    assert shown.splitlines()[-1] == (
        "Waits because no worker of pool gpu is connected. "
        "Start one: xmcloud worker start --pool gpu"
    )
    draft = CliRunner().invoke(cli, ["show", f"{experiment}/2"]).stdout
    assert "Waits because nobody enqueued it. Enqueue it: xmcloud enqueue " in draft
    first, second = CliRunner().invoke(cli, ["show", experiment]).stdout.splitlines()[-2:]
    assert first.endswith("no worker of pool gpu is connected")
    assert second.split()[-1] == "draft"
    with Client(url, TOKEN) as client:
        client.pause_queue("default", Act())
    shown = CliRunner().invoke(cli, ["show", f"{experiment}/1"]).stdout
    assert shown.splitlines()[-2:] == [
        "Waits because queue default is paused. Resume it: xmcloud queue resume default",
        "Besides, no worker of pool gpu is connected. Start one: xmcloud worker start --pool gpu",
    ]


def test_show_says_of_how_many_jobs_it_does_not_tell(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMCLOUD_URL", url)
    monkeypatch.setenv("XMCLOUD_TOKEN", TOKEN)
    monkeypatch.setattr(pending, "JOBS_TOLD", 1)
    with Client(url, TOKEN) as client:
        experiment = client.create_experiment(NewExperiment(title="sweep")).id
        client.add_units(experiment, units(spec(pool="gpu"), spec(pool="gpu")))
    shown = CliRunner().invoke(cli, ["show", experiment])
    assert shown.stdout.count("queue default is paused") == 1
    assert shown.stderr == (
        "Why 1 more job waits is not shown here; to hear it of one: xmcloud show JOB\n"
    )


def test_a_job_that_started_meanwhile_is_not_said_to_wait() -> None:
    assert rows.job_row(queued(), START, "queue default is paused")[-1] == "queue default is paused"
    assert rows.job_row(running(), START, "queue default is paused")[-1] == ""
