"""Images: built by the control plane or by the Docker engine of this machine."""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Protocol

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Image
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.archives.spool import Spool
from xmcloud.xm_cloud.executors import KubernetesSpec, LocalSpec, OverflowSpec, VertexSpec
from xmcloud.xm_cloud.packaging.images import BuildService, Say, image_name, request_image
from xmcloud.xm_cloud.packaging.local_engine import find_engine
from xmcloud.xm_cloud.unsupported import Unsupported

REGISTRY = "XMCLOUD_REGISTRY"
"""Where images go that are built here for elsewhere: HOST/PATH."""

CloudSpec = VertexSpec | KubernetesSpec | OverflowSpec


class Engine(Protocol):
    """Makes images on this machine, by their tags."""

    def build(self, name: str, context: Spool) -> str: ...

    def load(self, name: str, archive: Path) -> str: ...

    def push(self, tag: str, target: str) -> str: ...

    def close(self) -> None: ...


FindEngine = Callable[[Say], Engine | None]


class ImagePackager:
    """Makes images; the engine is looked for when the first needs it."""

    def __init__(
        self, service: BuildService, stack: ExitStack, say: Say, find: FindEngine = find_engine
    ) -> None:
        self._service, self._stack, self._say, self._find = service, stack, say, find
        self._looking = threading.Lock()

    @property
    def engine(self) -> Engine | None:
        with self._looking:
            return self._found_engine

    @cached_property
    def _found_engine(self) -> Engine | None:
        engine = self._find(self._say)
        return None if engine is None else self._stack.enter_context(closing(engine))

    def build(self, name: str, context: Spool, executor_spec: xm.ExecutorSpec) -> Image:
        """From a context, which is closed. Raises BuildFailed, and `Unsupported` without engine."""
        name = image_name(name)
        with context:
            if isinstance(executor_spec, LocalSpec):
                return Image(image=self._needed_engine(name).build(name, context))
            if not flags.build_image_locally():
                tag = _push_image_tag(executor_spec)
                return request_image(self._service, name, context, tag, self._say)
            target_of, engine = _target(executor_spec), self._needed_engine(name)
            tag = engine.build(name, context)
            return Image(image=engine.push(tag, target_of(tag)))

    def load(self, name: str, archive: Path, executor_spec: xm.ExecutorSpec) -> Image:
        """From an archive of an image. Raises as `build` does."""
        if not archive.is_file():
            raise InvalidInput("image_path", str(archive), "the path of an image archive")
        name = image_name(name)
        engine = self._needed_engine(name)
        if isinstance(executor_spec, LocalSpec):
            return Image(image=engine.load(name, archive))
        target_of = _target(executor_spec)
        tag = engine.load(name, archive)
        return Image(image=engine.push(tag, target_of(tag)))

    def _needed_engine(self, name: str) -> Engine:
        """Raises `Unsupported` where none answers."""
        engine = self.engine
        if engine is None:
            raise Unsupported(
                f"The image {name} needs a Docker engine on this machine, and none answers.",
                "Start one, or set DOCKER_HOST to where it is. Without one, what runs here is "
                "xm.binary(..), and xm.python_container(..) without base_image and "
                "docker_instructions.",
            )
        return engine


def _push_image_tag(executor_spec: xm.ExecutorSpec) -> str:
    return (executor_spec.push_image_tag or "") if isinstance(executor_spec, CloudSpec) else ""


def _target(executor_spec: xm.ExecutorSpec) -> Callable[[str], str]:
    """Where an image of this machine, by its tag here, is pushed to. Raises InvalidInput."""
    given = _push_image_tag(executor_spec)
    registry = os.environ.get(REGISTRY, "").rstrip("/")
    if not given and not registry:
        expected = "a registry to push to (HOST/PATH), or its Spec has a push_image_tag"
        raise InvalidInput(REGISTRY, registry, expected)
    return lambda tag: given or f"{registry}/{tag.removeprefix('xmcloud/')}"
