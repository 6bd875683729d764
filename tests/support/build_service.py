"""Where packaging sends archives and asks for images, in memory."""

from datetime import UTC, datetime

from tests.support.blobs import MemoryBlobs
from xmcloud.core import builds
from xmcloud.core.builds import Build
from xmcloud.core.protocol import NewBuild


class MemoryBuildService(MemoryBlobs):
    """A `BuildService`; `requested` has what was asked for, one entry a request."""

    def __init__(self) -> None:
        super().__init__()
        self.requested: list[NewBuild] = []

    def create_build(self, new: NewBuild) -> Build:
        self.requested.append(new)
        return builds.requested(new.spec, new.by, datetime(2026, 1, 1, tzinfo=UTC))
