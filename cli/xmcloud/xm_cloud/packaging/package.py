"""From executable specs to what workers and platforms can run."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Semaphore
from typing import NamedTuple

from xmcloud import xm
from xmcloud.core.errors import XmcloudError
from xmcloud.core.specs import Executable, Image
from xmcloud.xm_cloud.awaiting import in_thread
from xmcloud.xm_cloud.executors import LocalSpec, WorkerPoolSpec
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs, BazelTarget, target_of
from xmcloud.xm_cloud.packaging.contexts import dockerfile_context, python_context
from xmcloud.xm_cloud.packaging.dockerfiles import python_command
from xmcloud.xm_cloud.packaging.image_packager import CloudSpec, ImagePackager
from xmcloud.xm_cloud.packaging.images import BuildService
from xmcloud.xm_cloud.packaging.planned import PlannedPackager, planned_target
from xmcloud.xm_cloud.packaging.programs import (
    bazel_binary_of,
    binary_of,
    command_of,
    python_source_of,
)
from xmcloud.xm_cloud.unsupported import Unsupported

PARALLEL = 8


@dataclass(frozen=True)
class Packaged(xm.Executable):
    """An executable that can run, and the executor spec it was packaged for."""

    executable: Executable
    executor_spec: xm.ExecutorSpec


class _FromBazel(NamedTuple):
    packageable: xm.Packageable
    target: BazelTarget
    packaged: Future[Packaged]


def package(
    service: BuildService, packageables: Sequence[xm.Packageable], *, dry: bool = False
) -> list[Packaged]:
    """Packages in parallel and keeps the order; returns when what must be built was submitted.

    A dry run builds nothing on this machine. When all have ended, raises the first error in that
    order. Interrupted, it waits for none.
    """
    targets = [_target(packageable.executable_spec) for packageable in packageables]
    with ExitStack() as stack:
        turn = Semaphore(PARALLEL)
        packager = _Packager(service, stack, dry)
        from_bazel: list[_FromBazel] = []
        packaged: list[Future[Packaged]] = []
        for packageable, target in zip(packageables, targets, strict=True):
            if target is None or dry:
                work = partial(packager.package, packageable)
                packaged.append(in_thread(partial(_in_turn, turn, work), "xmcloud-package"))
            else:
                from_bazel.append(_FromBazel(packageable, target, Future()))
                packaged.append(from_bazel[-1].packaged)
        if from_bazel:
            in_thread(partial(packager.package_from_bazel, from_bazel), "xmcloud-package")
        wait(packaged)
        return [future.result() for future in packaged]


def _in_turn(turn: Semaphore, work: Callable[[], Packaged]) -> Packaged:
    with turn:
        return work()


def _target(spec: xm.ExecutableSpec) -> BazelTarget | None:
    return target_of(spec) if isinstance(spec, xm.BazelBinary | xm.BazelContainer) else None


class _Packager:
    def __init__(self, service: BuildService, stack: ExitStack, dry: bool) -> None:
        self._service, self._dry = service, dry
        self._images = (
            PlannedPackager(service, stack) if dry else ImagePackager(service, stack, _say)
        )

    def package(self, packageable: xm.Packageable, outputs: BazelOutputs | None = None) -> Packaged:
        spec, executor_spec = packageable.executable_spec, packageable.executor_spec
        if not isinstance(executor_spec, LocalSpec | WorkerPoolSpec | CloudSpec):
            raise Unsupported(
                f"executor_spec is {executor_spec!r}.",
                "Package for the Spec() of an executor: Local.Spec(), WorkerPool.Spec(), "
                "Vertex.Spec(), Kubernetes.Spec() or Overflow.Spec().",
            )
        return Packaged(
            spec.name,
            executable=self._executable(spec, executor_spec, outputs),
            executor_spec=executor_spec,
            args=packageable.args,
            env_vars=packageable.env_vars,
        )

    def package_from_bazel(self, those: Sequence[_FromBazel]) -> None:
        """Takes of each target what it built before Bazel builds with other options."""
        from xmcloud.xm_cloud.packaging.bazel import build

        try:
            for target, outputs in build((one.target for one in those), _say):
                for one in those:
                    if one.target == target:
                        self._take(one, outputs)
        except BaseException as error:
            for one in those:
                if not one.packaged.done():
                    one.packaged.set_exception(error)
            raise

    def _take(self, one: _FromBazel, outputs: BazelOutputs) -> None:
        try:
            one.packaged.set_result(self.package(one.packageable, outputs))
        except XmcloudError as error:
            one.packaged.set_exception(error)

    def _executable(
        self,
        spec: xm.ExecutableSpec,
        executor_spec: xm.ExecutorSpec,
        outputs: BazelOutputs | None,
    ) -> Executable:
        match spec:
            case xm.Binary() | xm.BazelBinary() if isinstance(executor_spec, CloudSpec):
                raise Unsupported(
                    f"{type(spec).__name__} {spec.name!r} is a program, but the cloud runs images.",
                    "Use xm.python_container(..), xm.dockerfile_container(..) or xm.container(..).",
                )
            case xm.Binary():
                local = isinstance(executor_spec, LocalSpec)
                return command_of(spec) if local else binary_of(self._service, spec)
            case xm.BazelBinary() | xm.BazelContainer() if self._dry:
                return planned_target(spec)
            case xm.BazelBinary() if outputs:
                return bazel_binary_of(self._service, outputs)
            case xm.BazelContainer() if outputs:
                return self._images.load(spec.name, outputs.image(), executor_spec)
            case xm.Container(image) if image.endswith(".tar"):
                return self._images.load(Path(image).stem, Path(image), executor_spec)
            case xm.Container(image):
                return Image(image=image)
            case xm.Dockerfile():
                return self._images.build(spec.name, dockerfile_context(spec), executor_spec)
            case xm.PythonContainer():
                return self._python(spec, executor_spec)
        raise Unsupported(
            f"{type(spec).__name__} {spec.name!r} is of no kind that is known here.",
            "Make it with xm.python_container(..), xm.binary(..) or their like.",
        )

    def _python(self, spec: xm.PythonContainer, executor_spec: xm.ExecutorSpec) -> Executable:
        if not spec.base_image and not spec.docker_instructions:
            if isinstance(executor_spec, WorkerPoolSpec):
                return python_source_of(self._service, spec)
            if isinstance(executor_spec, LocalSpec) and self._images.engine is None:
                _tell_of_environments()
                return python_source_of(self._service, spec)
        image = self._images.build(spec.name, python_context(spec), executor_spec)
        return image.evolve(command=python_command(spec)) if self._dry else image


def _say(text: str) -> None:
    sys.stderr.write(f"xmcloud: {text}\n")


@cache
def _tell_of_environments() -> None:
    _say(
        "no Docker engine answers here, so python_container runs in an environment made from "
        "requirements.txt, not in an image."
    )
