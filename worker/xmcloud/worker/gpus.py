"""The GPUs of this machine, as NVIDIA's driver tells them."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from xmcloud.core.resources import ANY_GPU
from xmcloud.worker.gpu_choice import GpuChoice, visible_to_cuda
from xmcloud.worker.settings import InvalidSettings

logger = logging.getLogger("xmcloud.worker")

_KINDS: Sequence[tuple[str, tuple[str, ...]]] = (
    (r"A100.*\b80GB", ("a100-80gib", "a100")),
    (r"A100", ("a100",)),
    (r"P4", ("p4",)),
    (r"T4", ("t4",)),
    (r"P100", ("p100",)),
    (r"V100S?", ("v100",)),
    (r"L4", ("l4", "l4-24th")),
    (r"H100", ("h100",)),
    (r"H200", ("h200",)),
    (r"B200", ("b200",)),
    (r"B300", ("b300",)),
    (r"GB200", ("gb200",)),
    (r"GB300", ("gb300",)),
    (r"VR200", ("vr200",)),
    (r"B40", ("b40-48th",)),
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device; `memory` is in bytes."""

    index: int
    uuid: str
    name: str
    memory: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of resources that it counts under."""
        found = (kinds for like, kinds in _KINDS if re.search(rf"\b{like}\b", self.name))
        return (*next(found, ()), ANY_GPU)

    def __str__(self) -> str:
        return f"{self.index} {self.name}"


@dataclass(frozen=True, slots=True)
class Driver:
    """What NVIDIA's driver says; `cuda` is the newest CUDA that it can run: '12.4'."""

    gpus: tuple[Gpu, ...] = ()
    cuda: str = ""
    trouble: str = ""
    """Why it cannot be asked, where there seems to be one."""


class Nvml(Protocol):
    """What is used of the module `pynvml`."""

    NVMLError: type[Exception]
    NVMLError_LibraryNotFound: type[Exception]
    NVMLError_DriverNotLoaded: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802
    def nvmlDeviceGetUUID(self, handle: Any) -> str: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Any) -> str: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...  # noqa: N802


def ask_driver(nvml: Nvml | None = None) -> Driver:
    """At once, whether there is a driver or not."""
    nvml = nvml or cast(Nvml, import_module("pynvml"))
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return Driver()
    except nvml.NVMLError as error:
        return _in_trouble(error)
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        return Driver(tuple(_gpus(nvml)), f"{cuda // 1000}.{cuda % 1000 // 10}")
    except nvml.NVMLError as error:
        return _in_trouble(error)
    finally:
        nvml.nvmlShutdown()


class GpuMeter:
    """A `GpuReader` of the driver's GPUs; the library stays open."""

    def __init__(self, driver: Driver, nvml: Nvml | None = None) -> None:
        self._nvml = nvml or cast(Nvml, import_module("pynvml"))
        self._count = max((gpu.index + 1 for gpu in driver.gpus), default=0)
        if self._count:
            self._nvml.nvmlInit()

    def sample(self) -> list[tuple[float, float]]:
        """Of each, by its number; zeros for one that does not answer."""
        return [self._measure(index) for index in range(self._count)]

    def _measure(self, index: int) -> tuple[float, float]:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            return float(busy), float(self._nvml.nvmlDeviceGetMemoryInfo(handle).used)
        except self._nvml.NVMLError:
            return 0.0, 0.0


def _in_trouble(error: Exception) -> Driver:
    logger.warning("NVIDIA's driver does not answer, so no GPU is used: %s", error)
    return Driver(trouble=str(error))


def _gpus(nvml: Nvml) -> Iterator[Gpu]:
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            name = nvml.nvmlDeviceGetName(handle)
            yield Gpu(index, nvml.nvmlDeviceGetUUID(handle), name, memory)
        except nvml.NVMLError as error:
            logger.warning("GPU %d is not used, because it does not answer: %s", index, error)


def chosen(
    driver: Driver, choice: GpuChoice, environment: Mapping[str, str] = os.environ
) -> tuple[Gpu, ...]:
    """Those that are chosen and that CUDA_VISIBLE_DEVICES leaves. Raises `InvalidSettings`."""
    wanted = _resolved(driver, choice, "gpus")
    if not wanted:
        return ()
    try:
        visible = _resolved(driver, visible_to_cuda(environment), "CUDA_VISIBLE_DEVICES")
    except ValueError as error:
        raise InvalidSettings(f"CUDA_VISIBLE_DEVICES: {error}.", "Correct or unset it.") from None
    found = tuple(gpu for gpu in driver.gpus if gpu in wanted and gpu in visible)
    if choice.names and not found:
        hidden = ", ".join(choice.names)
        raise InvalidSettings(
            f"Setting 'gpus' ({hidden!r}) names only what CUDA_VISIBLE_DEVICES hides from the"
            f" worker: it is {environment['CUDA_VISIBLE_DEVICES']!r}.",
            "Unset CUDA_VISIBLE_DEVICES, or choose others.",
        )
    return found


def _resolved(driver: Driver, choice: GpuChoice, setting: str) -> tuple[Gpu, ...]:
    if choice.names is None:
        return driver.gpus
    return tuple(_named(driver, name, setting) for name in choice.names)


def _named(driver: Driver, name: str, setting: str) -> Gpu:
    found = [gpu for gpu in driver.gpus if _is(gpu, name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidSettings(
            f"Setting {setting!r} ({name!r}) fits {len(found)} GPUs.", "Write more of the UUID."
        )
    there = "; ".join(f"{gpu} {gpu.uuid}" for gpu in driver.gpus)
    if not there:
        why = driver.trouble or "there is no NVIDIA driver, or it has none"
        raise InvalidSettings(
            f"Setting {setting!r} ({name!r}): this machine has no GPU to use: {why}.",
            "Repair the driver, or start the worker with --gpus none.",
        )
    raise InvalidSettings(
        f"Setting {setting!r} ({name!r}): this machine has no such GPU.", f"It has: {there}"
    )


def _is(gpu: Gpu, name: str) -> bool:
    if name.isdecimal():
        return gpu.index == int(name)
    return gpu.uuid.lower().startswith(name.lower())
