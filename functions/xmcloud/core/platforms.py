"""The boundaries to what runs jobs and builds images elsewhere.

Each docstring is the contract that every adapter keeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from xmcloud.core.builds import Build
from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Job


class QuotaExceeded(XmcloudError):
    """The platform takes no more of these jobs now; later it may."""

    slug, title, status = "quota-exceeded", "Quota exceeded", 429


class PlatformRefused(XmcloudError):
    """The platform will never take this job as it is defined."""

    slug, title, status = "platform-refused", "Refused by the platform", 422


class PlatformState(StrEnum):
    """What a platform says of a job. PREEMPTED and BROKEN are no fault of the job's own code."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    BROKEN = "broken"

    @property
    def terminal(self) -> bool:
        return self not in (PlatformState.PENDING, PlatformState.RUNNING)


@dataclass(frozen=True, slots=True)
class PlatformJob:
    """A job, or the jobs of a group together, as a platform tells of them.

    `name` is the platform's own and finds it again. `message` says more for people; `url` and
    `log_url` are where they see it, and what it printed.
    """

    name: str
    state: PlatformState
    message: str = ""
    url: str = ""
    log_url: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Jobs that start together: one, or a group in its order; all are STARTING.

    `label` names this attempt of them and no other, in at most 63 of `[a-z0-9-]`. `environment`
    holds, by job id, the variables of each job: its own, and what tells it which attempt it is.
    """

    label: str
    jobs: Sequence[Job]
    environment: Mapping[str, Mapping[str, str]] = field(repr=False)


class Platform(Protocol):
    """Runs containers somewhere in the cloud: Vertex AI, Kubernetes."""

    def check(self, jobs: Sequence[Job]) -> None:
        """Whether it could ever run these together; no call. Raises `InvalidInput`."""

    async def submit(self, launch: Launch) -> PlatformJob:
        """Starts a job with that label. Not idempotent: `find` first when one may be there.

        Raises `QuotaExceeded`, `PlatformRefused`, and `Unavailable`, after which the job may be
        there or not.
        """

    async def find(self, label: str) -> list[PlatformJob]:
        """What was submitted with the label, the oldest first. Raises `Unavailable`."""

    async def get(self, name: str) -> PlatformJob | None:
        """The job of that name; None when the platform has no such job. Raises `Unavailable`."""

    async def cancel(self, name: str) -> None:
        """Asks it to end, and returns without waiting for that; of one that ended, or is not
        there, it asks nothing. Raises `Unavailable`."""

    def event(self, body: str) -> str | None:
        """The name of the job that an event of the platform is about; None for other events."""

    async def close(self) -> None:
        """Releases connections."""


class BuilderState(StrEnum):
    """What a builder says of a build. BROKEN is no fault of the build's own steps."""

    WAITING = "waiting"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class BuilderJob:
    """A build as the builder tells of it.

    `image` is the reference with the digest, once it succeeded. `step` is the one that failed,
    and `tail` the last lines of the log.
    """

    name: str
    state: BuilderState
    image: str = ""
    step: str = ""
    message: str = ""
    tail: str = ""
    url: str = ""


class Builder(Protocol):
    """Makes container images of source archives and pushes them to a registry."""

    async def submit(self, build: Build) -> BuilderJob:
        """Starts the build, tagged with its id and try. Not idempotent: `find` first.

        The archive is the blob `content/<digest>`. Raises `QuotaExceeded`, `PlatformRefused`
        and `Unavailable`.
        """

    async def find(self, build: Build) -> BuilderJob | None:
        """The one that was submitted for this build and try. Raises `Unavailable`."""

    async def get(self, name: str) -> BuilderJob | None:
        """The build of that name. Raises `Unavailable`."""

    async def cancel(self, name: str) -> None:
        """Asks it to end; of one that ended, or is not there, it asks nothing. Raises
        `Unavailable`."""

    def event(self, body: str) -> str | None:
        """The name of the build that an event is about; None for other events."""

    async def close(self) -> None:
        """Releases connections."""
