"""What Cloud Build tells of a build, in the core's words."""

from typing import TYPE_CHECKING

from xmcloud.core.platforms import BuilderState

if TYPE_CHECKING:
    from google.cloud.devtools import cloudbuild_v1

_STATES = {
    "STATUS_UNKNOWN": BuilderState.WAITING,
    "PENDING": BuilderState.WAITING,
    "QUEUED": BuilderState.WAITING,
    "WORKING": BuilderState.WORKING,
    "SUCCESS": BuilderState.SUCCEEDED,
    "FAILURE": BuilderState.FAILED,
    "TIMEOUT": BuilderState.TIMED_OUT,
    "CANCELLED": BuilderState.CANCELLED,
    "INTERNAL_ERROR": BuilderState.BROKEN,
    "EXPIRED": BuilderState.BROKEN,
}
_WHERE = {
    "PUSH_FAILED": "push",
    "PUSH_IMAGE_NOT_FOUND": "push",
    "PUSH_NOT_AUTHORIZED": "push",
    "FETCH_SOURCE_FAILED": "fetch the source",
}


def state(remote: "cloudbuild_v1.Build") -> BuilderState:
    return _STATES[remote.status.name]


def where(remote: "cloudbuild_v1.Build") -> str:
    """What failed when it was none of the Dockerfile's instructions; '' otherwise."""
    return _WHERE.get(remote.failure_info.type_.name, "")


def pushed(remote: "cloudbuild_v1.Build") -> str:
    """The reference with the digest; '' when none is told."""
    if not remote.images:  # kaniko pushed it, and its step told the whole reference
        outputs = [output.decode().strip() for output in remote.results.build_step_outputs]
        return next((output.splitlines()[0] for output in outputs if output), "")
    digests = {image.name: image.digest for image in remote.results.images}
    folder, slash, name = remote.images[0].rpartition("/")
    digest = digests.get(remote.images[0])
    return f"{folder}{slash}{name.partition(':')[0]}@{digest}" if digest else ""
