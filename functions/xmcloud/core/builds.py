"""Builds of container images: what is built, how far it is, and its life.

    queued -> working -> built | failed | stopped

A build is named by what it is made of, so the same content is built once. One that failed or was
stopped is tried again when somebody asks for it again.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from xmcloud.core.base import Model, Time
from xmcloud.core.errors import IllegalTransition
from xmcloud.core.names import Digest, Id, Text, Title, derived_id

TAIL_LIMIT = 8000
"""Characters of a build's log that are kept beside it."""

SUBMITTING = timedelta(seconds=30)
"""How long a submission may take before the sweep looks for what became of it."""

ImageName = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-]+[a-z0-9]+)*$", max_length=100)]


class BuildSpec(Model):
    """What an image is made of; the same spec is the same build."""

    archive: Digest = Field(description="The context: a blob, a gzipped tar.")
    dockerfile: Text = Field("Dockerfile", description="Its path in the archive.")
    name: ImageName = Field(description="Of the image in the control plane's own registry.")
    push_image_tag: Text = Field("", description="Where to push to instead: repository:tag.")
    kaniko: bool = Field(False, description="Build with kaniko, which caches every layer.")
    timeout_seconds: Annotated[int, Field(ge=60, le=24 * 3600)] = 3600

    @property
    def id(self) -> str:
        return derived_id("build", self.model_dump_json())


class BuildState(StrEnum):
    QUEUED = "queued"
    WORKING = "working"
    BUILT = "built"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def terminal(self) -> bool:
        return self in (BuildState.BUILT, BuildState.FAILED, BuildState.STOPPED)


class Build(Model):
    """An image that is made, or was."""

    id: Id
    spec: BuildSpec
    state: BuildState
    tries: Annotated[int, Field(ge=1)] = 1
    remote: Text = Field("", description="What the builder calls it; '' until it took it.")
    url: Text = ""
    image: Text = Field("", description="Reference with digest, once it is built.")
    step: str = Field("", description="The step that failed.")
    message: Annotated[str, Field(max_length=4000)] = ""
    tail: str = Field("", description="The last lines of the log of a build that failed.")
    by: Title = "unknown"
    created_at: Time
    updated_at: Time

    @model_validator(mode="after")
    def _state_and_fields_agree(self) -> Self:
        if bool(self.image) != (self.state is BuildState.BUILT):
            raise ValueError("a build has an image exactly when it is built")
        return self

    @property
    def tag(self) -> str:
        """What the builder's copy of this try is tagged with."""
        return f"xmcloud-{self.id}-{self.tries}"


def requested(spec: BuildSpec, by: str, now: datetime) -> Build:
    """A build that nobody has asked for before."""
    return Build(
        id=spec.id, spec=spec, state=BuildState.QUEUED, by=by, created_at=now, updated_at=now
    )


def requested_again(build: Build, by: str, now: datetime) -> Build:
    """One that failed or was stopped is tried again; any other stays as it is."""
    if build.state not in (BuildState.FAILED, BuildState.STOPPED):
        return build
    fresh = requested(build.spec, by, now)
    return fresh.evolve(tries=build.tries + 1, created_at=build.created_at)


def taken(build: Build, remote: str, url: str, now: datetime) -> Build:
    """The builder has it."""
    _require(build, "take", BuildState.QUEUED, BuildState.WORKING)
    return build.evolve(state=BuildState.WORKING, remote=remote, url=url, updated_at=now)


def built(build: Build, image: str, now: datetime) -> Build:
    """The image is in the registry."""
    _require(build, "finish", BuildState.QUEUED, BuildState.WORKING)
    return build.evolve(state=BuildState.BUILT, image=image, updated_at=now)


def failed(build: Build, message: str, now: datetime, *, step: str = "", tail: str = "") -> Build:
    """A step failed, or the builder would not take it."""
    _require(build, "fail", BuildState.QUEUED, BuildState.WORKING)
    return build.evolve(
        state=BuildState.FAILED,
        message=message[:4000],
        step=step,
        tail=tail[-TAIL_LIMIT:],
        updated_at=now,
    )


def stopped(build: Build, message: str, now: datetime) -> Build:
    """Nobody wants it any more."""
    _require(build, "stop", BuildState.QUEUED, BuildState.WORKING)
    return build.evolve(state=BuildState.STOPPED, message=message[:4000], updated_at=now)


def _require(build: Build, action: str, *legal: BuildState) -> None:
    if build.state not in legal:
        raise IllegalTransition(action, f"build {build.id}", build.state, legal)
