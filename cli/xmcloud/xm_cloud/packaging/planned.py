"""What packaging for a dry run has in place of what builds on this machine."""

import sys
from contextlib import ExitStack
from pathlib import Path

from xmcloud import xm
from xmcloud.core.specs import Binary, Image
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.packaging.bazel_targets import target_of
from xmcloud.xm_cloud.packaging.image_packager import Engine, ImagePackager
from xmcloud.xm_cloud.packaging.images import BuildService, Say
from xmcloud.xm_cloud.packaging.local_engine import engine_is_set_up
from xmcloud.xm_cloud.unsupported import Unsupported

NOT_BUILT = "0" * 64
"""The digest of a program that is not there yet."""

OURS = "xmcloud/"
"""Before the name of an image that is made on this machine."""


class PlannedEngine:
    """Tells the names, without their versions, of what an engine would make."""

    def build(self, name: str, context: Spool) -> str:
        return f"{OURS}{name}"

    def load(self, name: str, archive: Path) -> str:
        return f"{OURS}{name}"

    def push(self, tag: str, target: str) -> str:
        return f"build: {tag.removeprefix(OURS)}, push: {target}"

    def close(self) -> None:
        """There is nothing to close."""


def planned_engine(say: Say) -> PlannedEngine | None:
    """Where one is set up: it is not asked."""
    return PlannedEngine() if engine_is_set_up() else None


class PlannedPackager(ImagePackager):
    """Names images; says which ones need an engine that is not there, and goes on."""

    def __init__(self, service: BuildService, stack: ExitStack) -> None:
        super().__init__(service, stack, lambda _: None, planned_engine)

    def _needed_engine(self, name: str) -> Engine:
        try:
            return super()._needed_engine(name)
        except Unsupported as missing:
            sys.stderr.write(f"xmcloud: {missing}\n")
            return PlannedEngine()


def planned_target(spec: xm.BazelBinary | xm.BazelContainer) -> Binary | Image:
    """What Bazel would build. Raises as `target_of` does."""
    label = target_of(spec).label
    if isinstance(spec, xm.BazelContainer):
        return Image(image=f"build: {label}")
    return Binary(file=NOT_BUILT, name=label.rpartition(":")[2])
