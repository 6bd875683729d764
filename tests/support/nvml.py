"""NVIDIA's management library without a GPU: an object in this process, and a real library."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from xmcloud.worker.gpus import Gpu

GIB = 2**30


def gpu(index: int, name: str = "NVIDIA A100-SXM4-40GB", memory: int = 40 * GIB) -> Gpu:
    return Gpu(index, f"GPU-{index:08x}-0000-4000-8000-000000000000", name, memory)


class FakeNvmlError(Exception):
    """Any trouble."""


class NoLibrary(FakeNvmlError):
    """No driver is installed."""


class NotLoaded(FakeNvmlError):
    """A driver is installed and not loaded."""


@dataclass
class FakeNvml:
    """A driver with those GPUs; `broken` ones do not answer."""

    gpus: Sequence[Gpu] = ()
    cuda: int = 12040
    refuses: FakeNvmlError | None = None
    broken: Sequence[int] = ()
    open: int = field(default=0, init=False)

    NVMLError: type[Exception] = FakeNvmlError
    NVMLError_LibraryNotFound: type[Exception] = NoLibrary
    NVMLError_DriverNotLoaded: type[Exception] = NotLoaded

    def nvmlInit(self) -> None:  # noqa: N802
        if self.refuses is not None:
            raise self.refuses
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return self.cuda

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        if index in self.broken:
            raise FakeNvmlError("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: Gpu) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Gpu) -> str:  # noqa: N802
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: Gpu) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=handle.memory, used=handle.memory // 4)

    def nvmlDeviceGetUtilizationRates(self, handle: Gpu) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=25 * (handle.index + 1))


_SOURCE = """
#include <cstring>
struct Gpu { const char *name, *uuid; unsigned long long memory; };
static Gpu gpus[] = {%(gpus)s {nullptr, nullptr, 0}};
static int text(char *to, unsigned size, const char *from) {
  if (std::strlen(from) >= size) return 7;
  std::strcpy(to, from);
  return 0;
}
extern "C" {
int nvmlInitWithFlags(unsigned) { return %(refuses)d; }
int nvmlShutdown() { return 0; }
const char *nvmlErrorString(int) { return "Driver/library version mismatch"; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = %(cuda)d; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = %(count)d; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu) { *gpu = &gpus[index]; return 0; }
int nvmlDeviceGetName(Gpu *gpu, char *to, unsigned size) { return text(to, size, gpu->name); }
int nvmlDeviceGetUUID(Gpu *gpu, char *to, unsigned size) { return text(to, size, gpu->uuid); }
int nvmlDeviceGetMemoryInfo(Gpu *gpu, unsigned long long *info) {
  info[0] = gpu->memory; info[1] = gpu->memory / 4 * 3; info[2] = gpu->memory / 4;
  return 0;
}
int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned *rates) {
  rates[0] = 25; rates[1] = 0;
  return 0;
}
}
"""


def build_library(
    folder: Path, gpus: Sequence[Gpu], *, cuda: int = 12040, refuses: int = 0
) -> dict[str, str]:
    """The library in a folder; the variables with which a process finds it there."""
    rows = "".join(f'{{"{each.name}", "{each.uuid}", {each.memory}ULL}}, ' for each in gpus)
    source = _SOURCE % {"gpus": rows, "count": len(gpus), "cuda": cuda, "refuses": refuses}
    library = folder / "libnvidia-ml.so.1"
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", str(library), "-"]
    subprocess.run(command, input=source.encode(), check=True, timeout=60)
    return {"LD_LIBRARY_PATH": str(folder)}
