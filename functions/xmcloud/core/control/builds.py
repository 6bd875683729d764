"""Images: asking for them, hearing how their builds go, and what that means for jobs."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from xmcloud.core import builds, lifecycle, queries
from xmcloud.core.builds import SUBMITTING, Build, BuildState
from xmcloud.core.control.changing import change_job, spread
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.updating import there, update
from xmcloud.core.documents import BUILDS, JOBS, Stored
from xmcloud.core.errors import IllegalTransition, NotFound, Unavailable, XmcloudError
from xmcloud.core.models import Job, JobState, Reason, ReasonCode
from xmcloud.core.platforms import (
    Builder,
    BuilderJob,
    BuilderState,
    PlatformRefused,
    QuotaExceeded,
)
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.protocol import Builds, NewBuild
from xmcloud.core.specs import JobSpec, pending_build

PAGE = 200
BROKEN_TRIES = 3
"""Builds that the builder itself broke are made again, up to so many times in all."""

LOOK_AGAIN = timedelta(seconds=60)
"""How long the sweep trusts that an event will tell of a build."""


class NoBuilder(XmcloudError):
    """This control plane makes no images."""

    slug, title, status = "no-builder", "No builder", 409


def _builder(plane: ControlPlane) -> Builder:
    if plane.builder is None:
        raise NoBuilder(
            "This control plane has no service that builds images.",
            "Build on this machine (--xm_build_image_locally), or rehearse it here: "
            "xmcloud up --stand-ins.",
        )
    return plane.builder


async def create_build(plane: ControlPlane, request: NewBuild) -> Build:
    """The build of that spec: made if it is not there, again if it failed. Raises `NoBuilder`."""
    _builder(plane)
    now = plane.clock.now()
    (stored,) = await BUILDS.get_many(plane.store, [request.spec.id])
    if stored is None:
        build = builds.requested(request.spec, request.by, now)
        with suppress(PreconditionFailed):
            await plane.store.commit([BUILDS.create(build)])
    else:
        build = await _change(
            plane, request.spec.id, lambda build: builds.requested_again(build, request.by, now)
        )
    if build.state is BuildState.QUEUED and not build.remote:
        return await _submit(plane, build.id)
    return build


async def list_builds(plane: ControlPlane, limit: int, cursor: str | None) -> Builds:
    page, after = await BUILDS.find(plane.store, queries.builds().page(limit, cursor))
    return Builds(builds=[stored.item for stored in page], cursor=after)


async def get_build(plane: ControlPlane, id: str) -> Build:
    """Raises `NotFound`."""
    return (await BUILDS.get(plane.store, id)).item


async def stop_build(plane: ControlPlane, id: str, by: str) -> Build:
    """With it end the jobs that wait for its image. Raises `IllegalTransition`."""
    now = plane.clock.now()
    build = await _change(plane, id, lambda b: builds.stopped(b, f"stopped by {by}", now))
    await _cancel(plane, build)
    await _settle(plane, build)
    return build


async def build_event(plane: ControlPlane, body: str) -> None:
    """Looks at the build that an event of the builder is about."""
    name = plane.builder.event(body) if plane.builder else None
    if name is None:
        return
    page, _ = await BUILDS.find(plane.store, queries.build_called(name).page(1, None))
    if page and not page[0].item.state.terminal:
        await _look(plane, page[0].item)


async def look_at_builds(plane: ControlPlane) -> int:
    """For the sweep: submits what was not, and asks about what no event told of lately."""
    if plane.builder is None:
        return 0
    page, _ = await BUILDS.find(plane.store, queries.open_builds().page(PAGE, None))
    for build in (stored.item for stored in page):
        age = plane.clock.now() - build.updated_at
        if age >= (LOOK_AGAIN if build.remote else SUBMITTING):
            with suppress(Unavailable):
                await (_look(plane, build) if build.remote else _submit(plane, build.id))
        due = build.updated_at + (LOOK_AGAIN if build.remote else SUBMITTING)
        plane.alarm(f"build/{build.id}", max(due, plane.clock.now() + SUBMITTING))
    await _settle_stranded(plane)
    return len(page)


async def known_images(plane: ControlPlane, specs: Sequence[JobSpec]) -> dict[str, str]:
    """The images that are there already, by build. Raises `NotFound` for a build that is not."""
    ids = sorted({id for spec in specs if (id := pending_build(spec)) is not None})
    if not ids:
        return {}
    found = await BUILDS.get_many(plane.store, ids)
    for id, stored in zip(ids, found, strict=True):
        if stored is None:
            raise NotFound("build", id, "Package the code again.")
    return {s.item.id: s.item.image for s in found if s is not None and s.item.image}


async def join_builds(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> list[Stored[Job]]:
    """Looks once more at the builds of jobs that wait for one: it may have ended meanwhile."""
    newest = {stored.item.id: stored for stored in jobs}
    waiting = {b for s in jobs if (b := s.item.pending_build) and _is_building(s.item)}
    for stored in await BUILDS.get_many(plane.store, sorted(waiting)) if waiting else ():
        if stored is not None and stored.item.state.terminal:
            for done in await _settle(plane, stored.item):
                newest[done.item.id] = done
    return [newest[stored.item.id] for stored in jobs]


async def abandon_builds(plane: ControlPlane, jobs: Sequence[Stored[Job]]) -> None:
    """Stops the builds of jobs that were just stopped, if nobody else waits for them."""
    gone = {b for s in jobs if (b := s.item.pending_build) and not _is_building(s.item)}
    for id in sorted(gone):
        if await plane.store.count(queries.waiting_for_build(id)):
            continue
        (stored,) = await BUILDS.get_many(plane.store, [id])
        if stored is not None and not stored.item.state.terminal:
            with suppress(IllegalTransition):  # it has ended meanwhile
                await stop_build(plane, id, "the end of the last job that waits for it")


def _is_building(job: Job) -> bool:
    return job.state is JobState.BUILDING


async def _change(plane: ControlPlane, id: str, decide: Callable[[Build], Build]) -> Build:
    missing = NotFound("build", id)
    changed = await update(plane, BUILDS, id, lambda build: decide(there(build, missing)))
    plane.signals.send(f"build/{id}")
    return changed


async def _submit(plane: ControlPlane, id: str) -> Build:
    """Gives the build to the builder, unless that has it already."""
    builder, build = _builder(plane), await get_build(plane, id)
    if build.state is not BuildState.QUEUED:
        return build
    try:
        found = await builder.find(build) or await builder.submit(build)
    except (Unavailable, QuotaExceeded) as error:
        plane.alarm(f"build/{id}", plane.clock.now() + SUBMITTING)
        return await _change(plane, id, _told(build, str(error)))
    except PlatformRefused as error:
        refusal = str(error)
        return await _end(plane, build, lambda b, now: builds.failed(b, refusal, now))
    plane.alarm(f"build/{id}", plane.clock.now() + LOOK_AGAIN)
    current = await _apply(plane, build, found)
    if current.tries == build.tries and current.remote not in ("", found.name):
        with suppress(Unavailable):  # somebody else submitted it too, and was faster
            await builder.cancel(found.name)
    return current


def _told(tried: Build, message: str) -> Callable[[Build], Build]:
    return lambda b: b.evolve(message=message[:4000]) if b.state is tried.state else b


async def _look(plane: ControlPlane, build: Build) -> Build:
    found = await _builder(plane).get(build.remote)
    if found is None:
        gone = "the builder does not know it any more"
        return await _end(plane, build, lambda b, now: builds.failed(b, gone, now))
    return await _apply(plane, build, found)


async def _apply(plane: ControlPlane, build: Build, found: BuilderJob) -> Build:
    """What the builder tells, written down; at its end the jobs that wait for it hear of it."""
    match found.state:
        case BuilderState.SUCCEEDED:
            return await _end(plane, build, lambda b, now: builds.built(b, found.image, now))
        case BuilderState.CANCELLED:
            gone = found.message or "cancelled at the builder"
            return await _end(plane, build, lambda b, now: builds.stopped(b, gone, now))
        case BuilderState.BROKEN if build.tries < BROKEN_TRIES:
            message = f"the builder broke it, it is made again: {found.message}"
            await _change(plane, build.id, _again(plane, build, message))
            return await _submit(plane, build.id)
        case BuilderState.FAILED | BuilderState.TIMED_OUT | BuilderState.BROKEN:
            return await _end(plane, build, lambda b, now: _failed(b, found, now))
    now = plane.clock.now()
    return await _change(
        plane,
        build.id,
        lambda b: (
            b
            if b.state.terminal or b.tries != build.tries or b.remote not in ("", found.name)
            else builds.taken(b, found.name, found.url, now)
        ),
    )


def _again(plane: ControlPlane, build: Build, message: str) -> Callable[[Build], Build]:
    now = plane.clock.now()

    def decide(current: Build) -> Build:
        if current.state.terminal or current.tries != build.tries:
            return current
        return builds.requested_again(builds.failed(current, message, now), current.by, now)

    return decide


def _failed(build: Build, found: BuilderJob, now: datetime) -> Build:
    late = f"not done within {timedelta(seconds=build.spec.timeout_seconds)}"
    message = late if found.state is BuilderState.TIMED_OUT else found.message
    return builds.failed(build, message, now, step=found.step, tail=found.tail)


async def _end(
    plane: ControlPlane, build: Build, decide: Callable[[Build, datetime], Build]
) -> Build:
    """Ends this try of the build, unless that is over, and tells the jobs that wait for it."""
    now = plane.clock.now()
    ended = await _change(
        plane,
        build.id,
        lambda b: b if b.state.terminal or b.tries != build.tries else decide(b, now),
    )
    await _settle(plane, ended)
    return ended


async def _cancel(plane: ControlPlane, build: Build) -> None:
    if plane.builder is not None and build.remote:
        with suppress(Unavailable):
            await plane.builder.cancel(build.remote)


async def _settle(plane: ControlPlane, build: Build) -> list[Stored[Job]]:
    """Sends on the jobs that wait for a build which is over; safe to repeat."""
    if not build.state.terminal:
        return []
    done: list[Stored[Job]] = []
    while True:
        page, _ = await JOBS.find(plane.store, queries.waiting_for_build(build.id).page(PAGE, None))
        if not page:
            return done
        for stored in page:
            changed = await change_job(plane, stored.item.id, lambda job: _after(plane, job, build))
            done += await spread(plane, changed.all)


def _after(plane: ControlPlane, job: Job, build: Build) -> Job:
    now = plane.clock.now()
    if job.state is not JobState.BUILDING or job.pending_build != build.id:
        return job
    if build.state is BuildState.BUILT:
        return lifecycle.built(job, build.image, now)
    step = f"step {build.step}: " if build.step else ""
    lines = f"\n{build.tail}" if build.tail else ""
    message = f"build {build.id} {build.state}: {step}{build.message}{lines}"
    reason = Reason(code=ReasonCode.BUILD_FAILED, message=message[:4000])
    return lifecycle.unbuildable(job, reason, now)


async def _settle_stranded(plane: ControlPlane) -> None:
    """Jobs that began to wait for a build just when it ended."""
    page, _ = await JOBS.find(plane.store, queries.building().page(PAGE, None))
    await join_builds(plane, page)
