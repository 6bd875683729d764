"""What is counted: a launch, a job, hours of a worker and of a job, a sweep, a build, a look."""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.cost.site import Site, SteppedLoop, opened_site
from tests.functions.api import new_job
from tests.support.builders import DIGEST
from tests.support.platform import MemoryPlatform
from xmcloud.core.builds import Build
from xmcloud.core.control.builds import build_event
from xmcloud.core.control.changes import changes
from xmcloud.core.control.logs import read_log
from xmcloud.core.control.plane import Target
from xmcloud.core.control.sweep import sweep
from xmcloud.core.models import Experiment, Job
from xmcloud.core.platforms import BuilderState
from xmcloud.core.protocol import ExperimentStatus, Jobs
from xmcloud.xm_cloud.watcher import POLL_SECONDS

VARIABLES = Path(__file__).parents[2] / "infra" / "terraform" / "variables.tf"
WINDOW = 300
"""Seconds that are lived through of an hour: so long a worker waits for permits at a time."""

HOUR = 3600
LAUNCHED = 100
ARCHIVE_BYTES = 100_000
LISTED = 50
BUILD_BYTES = 4000
"""Of a message of Cloud Build, which holds the whole build; it is published and delivered."""

Counts = Mapping[str, Mapping[str, float]]


def lease() -> timedelta:
    """What Terraform gives a deployment by default."""
    text = VARIABLES.read_text("utf-8")
    found = re.search(r'"lease_seconds" \{.*?default += (\d+)', text, re.DOTALL)
    assert found is not None
    return timedelta(seconds=int(found[1]))


def measured(folder: Path) -> Counts:
    """Operations by scenario and kind."""
    for name in ("bare", "most", "site"):
        (folder / name).mkdir()
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(_measured(folder))


async def _measured(folder: Path) -> Counts:
    counts = {
        "sweep": await _sweep(folder / "bare", everything=False),
        "sweep, with builds and Vertex AI": await _sweep(folder / "most", everything=True),
    }
    async with opened_site(folder / "site", lease()) as site:
        counts["launch of 100 jobs"], launched = await _launch(site, LAUNCHED)
        counts["launch of one job"], _ = await _launch(site, 1)
        counts["build"] = await _build(site)
        counts["show of 100 jobs"] = await _show(site, launched)
        counts["list of 50 experiments"] = await _list(site)
        counts |= await _work(site)
    return {scenario: dict(sorted(found.items())) for scenario, found in counts.items()}


async def _sweep(folder: Path, *, everything: bool) -> Counter[str]:
    async with opened_site(folder, lease()) as site:
        targets = {"vertex": Target(MemoryPlatform())} if everything else {}
        builder = site.builder if everything else None
        plane = replace(site.api.plane, targets=targets, builder=builder)
        return await _swept(replace(site, api=replace(site.api, plane=plane)))


async def _swept(site: Site) -> Counter[str]:
    before = site.meter.of("sweep")
    with site.meter.acting("sweep"):
        site.meter.add("request")  # of the schedule
        await sweep(site.api.plane)
    return site.meter.of("sweep") - before


async def _launch(site: Site, number: int) -> tuple[Counter[str], Experiment]:
    """An archive of code, an experiment, and all its jobs in one request."""
    before = site.meter.of("person")
    code = number.to_bytes(ARCHIVE_BYTES)
    path = f"/blobs/{hashlib.sha256(code).hexdigest()}"
    await site.person.call("HEAD", path, status=404)
    await site.person.call("PUT", path, status=201, content=code)
    experiment = await site.person.experiment("launch")
    # For a pool without workers: what runs here would be counted elsewhere.
    jobs = [new_job(f"job-{n}", pool="elsewhere") for n in range(number)]
    await site.person.jobs(experiment, *jobs)
    return site.meter.of("person") - before, experiment


async def _build(site: Site) -> Counter[str]:
    """Asked for by a person; Cloud Build tells of it three times."""
    before = site.meter.of("person") + site.meter.of("event")
    spec = {"archive": DIGEST, "name": "train"}
    build = await site.person.post(Build, "/builds", {"spec": spec}, 201)
    (name,) = site.builder.tags
    told: dict[BuilderState, dict[str, str]] = {
        BuilderState.WAITING: {},
        BuilderState.WORKING: {},
        BuilderState.SUCCEEDED: {"image": "registry.example/train@sha256:1"},
    }
    for state, more in told.items():
        body = site.builder.becomes(name, state, **more)
        with site.meter.acting("event"):
            site.meter.add("request")
            site.meter.add("pubsub-bytes", 2 * BUILD_BYTES)
            await build_event(site.api.plane, body)
    assert (await site.api.get(Build, f"/builds/{build.id}")).state == "built"
    return site.meter.of("person") + site.meter.of("event") - before


async def _show(site: Site, shown: Experiment) -> Counter[str]:
    before = site.meter.of("person")
    await site.person.get(ExperimentStatus, f"/experiments/{shown.id}")
    await site.person.get(Jobs, f"/experiments/{shown.id}/jobs", limit=200)
    return site.meter.of("person") - before


async def _list(site: Site) -> Counter[str]:
    for n in range(LISTED):
        await site.api.experiment(f"experiment {n}")
    before = site.meter.of("person")
    await site.person.call("GET", "/experiments", params={"limit": LISTED})
    return site.meter.of("person") - before


async def _work(site: Site) -> dict[str, Counter[str]]:
    """A worker with two slots: waits, runs jobs to their end, runs one for long."""
    async with site.worker.worker(slots=2):
        await site.machine.sleeper()
        await _listening(site, 1)
        idle = await _window(site, 1)
        await _whole_job(site, "first")
        one = await _whole_job(site, "second")
        job = await _running(site, "long")
        busy = await _window(site, 2)
        output = await _line(site, "long")
        jobs, log = await _followed(site, job)
        alone = await _swept(site)
        await site.api.session("another")
        together = await _swept(site)
        _let(site, "long", "end")
        await site.worker.over(job)
    busy.subtract(idle)
    return {
        "worker, an hour": _scaled(idle, HOUR / WINDOW),
        "job from queue to end": one,
        "job, an hour more": _scaled(+busy, HOUR / WINDOW),
        "piece of output": output,
        "following jobs, an hour": jobs,
        "following a log, an hour": log,
        "sweep, for each worker more": together - alone,
    }


def _scaled(counts: Counter[str], factor: float) -> Counter[str]:
    """Blobs aside: statistics take the place of those before."""
    counts = Counter({kind: n for kind, n in counts.items() if kind != "blob-bytes"})
    return Counter({kind: round(n * factor) for kind, n in counts.items() if n})


async def _listening(site: Site, polls: int) -> None:
    """Returns when the worker has nothing to say and waits in so many requests."""

    def waits() -> bool:
        now = site.network.under_way
        return len(now) == polls and all(b'"wait_seconds":300.0' in r.content for r in now)

    await site.until(waits, f"the worker waits in {polls} requests")


async def _window(site: Site, polls: int) -> Counter[str]:
    """Heartbeat by heartbeat; the requests that wait end once, with the last."""
    before, said = site.meter.of("worker"), site.network.said
    beat = site.api.plane.heartbeat.total_seconds()
    syncs, pulls = len(said["sync"]), len(said["pull"])
    for step in range(1, int(WINDOW / beat) + 1):
        await site.leap(beat)
        await site.said("sync", syncs + step)
    await site.said("pull", pulls + polls)
    await _listening(site, polls)
    return site.meter.of("worker") - before


async def _whole_job(site: Site, name: str) -> Counter[str]:
    """Its start, its one line and its end are told one by one."""
    before = site.meter.of("worker")
    job = await _running(site, name)
    await _line(site, name)
    await _told(site, "finished", lambda: _let(site, name, "end"))
    await site.worker.over(job)
    await _listening(site, 2)
    return site.meter.of("worker") - before


async def _running(site: Site, name: str) -> Job:
    """A job that writes a line when it is let, and ends when it is let."""
    wait = "until test -e {0}-{1}; do sleep 0.01; done"
    at = site.worker.folder / name
    script = f"{wait.format(at, 'line')}; echo a line; {wait.format(at, 'end')}"
    known = len(site.network.said["sync"])
    # It claims what has been launched altogether: who meets the launch at work reads twice.
    site.network.passable.clear()
    job = await site.worker.launch("sh", "-c", script)
    site.network.passable.set()
    await _told(site, "started", lambda: None, known)
    await _listening(site, 2)
    return job


async def _line(site: Site, name: str) -> Counter[str]:
    before = site.meter.of("worker")
    await _told(site, "output", lambda: _let(site, name, "line"))
    return site.meter.of("worker") - before


def _let(site: Site, name: str, what: str) -> None:
    (site.worker.folder / f"{name}-{what}").touch()


async def _told(site: Site, event: str, do: Callable[[], None], known: int | None = None) -> None:
    """Returns when the worker has told of what follows from that."""
    said = site.network.said["sync"]
    since = len(said) if known is None else known
    do()
    word = f'"event":"{event}"'.encode()
    await site.until(lambda: any(word in body for body in said[since:]), f"{event} is told")


async def _followed(site: Site, job: Job) -> tuple[Counter[str], Counter[str]]:
    """An hour of somebody who waits for changes of quiet jobs, and of one who waits for output."""
    plane, id = site.api.plane, job.experiment_id
    since = (await changes(plane, id, None, 0)).cursor
    end = len(await site.worker.log(job))
    jobs = await _looked(
        site, f"/experiments/{id}/changes", {"since": since}, changes(plane, id, since, 0)
    )
    log = await _looked(
        site, f"/jobs/{job.id}/log", {"offset": end}, read_log(plane, job.id, None, end, 0)
    )
    return jobs, log


async def _looked(
    site: Site, path: str, query: dict[str, str | int], look: Awaitable[object]
) -> Counter[str]:
    """Requests that wait `POLL_SECONDS`, and look again and again meanwhile."""
    before = site.meter.of("person")
    await site.person.call("GET", path, params=query)
    request = site.meter.of("person") - before
    before = site.meter.of("look")
    with site.meter.acting("look"):
        await look
    again = site.meter.of("look") - before
    requests = HOUR / POLL_SECONDS
    looks = HOUR / site.api.plane.look_again.total_seconds()
    return _scaled(request, requests) + _scaled(again, looks)
