"""Images that the control plane has built."""

import re
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Protocol

from xmcloud.core.builds import Build, BuildSpec, BuildState
from xmcloud.core.errors import XmcloudError
from xmcloud.core.protocol import NewBuild
from xmcloud.core.specs import Image
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.archives.uploads import BlobStore, upload
from xmcloud.xm_cloud.awaiting import in_thread
from xmcloud.xm_cloud.identity import user
from xmcloud.xm_cloud.packaging.contexts import DOCKERFILE

Say = Callable[[str], object]
LAST_LINES = 30
_NAME_LIMIT = 100
_WAIT_SECONDS = 10.0


class BuildFailed(XmcloudError):
    """An image could not be made; `lines` are the last that its build printed."""

    slug, title, status = "build-failed", "The build of an image failed", 422

    def __init__(self, name: str, step: str, message: str, lines: Sequence[str] = ()) -> None:
        where = f" at {step}" if step else ""
        printed = ["Correct what it printed last:", *(f"  {line}" for line in lines)]
        super().__init__(
            f"The image {name} was not built: it failed{where}: {message or 'no reason is known'}.",
            "\n".join(printed) if lines else "",
        )
        self.name, self.step, self.lines = name, step, tuple(lines)


class Builds(Protocol):
    """What waiting for builds needs of the client."""

    def build(self, id: str, wait: float = 0) -> Build: ...


class BuildService(BlobStore, Protocol):
    """What packaging needs of the client."""

    def create_build(self, new: NewBuild) -> Build: ...


def image_name(name: str) -> str:
    """The name of an executable as registries take it."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(words)[:_NAME_LIMIT].rstrip("-") or "image"


def request_image(
    service: BuildService, name: str, context: Spool, push_image_tag: str, say: Say
) -> Image:
    """Has the control plane build it, unless it did; returns when the build was submitted."""
    spec = BuildSpec(
        archive=upload(service, f"The context of {name}", context),
        dockerfile=DOCKERFILE,
        name=image_name(name),
        push_image_tag=push_image_tag,
        kaniko=flags.use_kaniko(),
        timeout_seconds=flags.build_timeout_seconds(),
    )
    build = service.create_build(NewBuild(spec=spec, by=user()))
    known = "already built" if build.state is BuildState.BUILT else "is built in the cloud"
    say(f"image {spec.name}: {known} (build {build.id})")
    return Image(build=build.id)


def wait_for_builds(
    client: Builds,
    builds: Collection[str],
    say: Say,
    *,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Until all have ended; `say` gets a line for each change. Ctrl-C ends the wait at once.

    Raises `BuildFailed` for the first, in the order of `builds`, that was not built.
    """
    start = now()

    def follow(id: str) -> Future[Build]:
        return in_thread(
            lambda: _followed(client, id, say, lambda: now() - start), f"xmcloud-build-{id}"
        )

    followed = [follow(id) for id in builds]
    for build in [each.result() for each in followed]:
        if build.state is not BuildState.BUILT:
            raise failure_of(build)


def failure_of(build: Build) -> BuildFailed:
    """Of a build that failed or was stopped."""
    lines = deque(build.tail.splitlines(), LAST_LINES)
    step = f"step {build.step}" if build.step else ""
    return BuildFailed(build.spec.name, step, build.message.rstrip("."), tuple(lines))


def _followed(client: Builds, id: str, say: Say, age: Callable[[], float]) -> Build:
    build = client.build(id)
    said: BuildState | None = None
    while True:
        if build.state is not said:
            said = build.state
            say(f"image {build.spec.name}: {said.value} ({age():.0f} s, build {id})")
        if build.state.terminal:
            return build
        build = client.build(id, _WAIT_SECONDS)
