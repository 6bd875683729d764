"""Which machine of Vertex AI a job gets, by the service's published tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xmcloud.core.errors import InvalidInput
from xmcloud.core.machine_sizes import FAMILIES, N1, Family, Size, sides
from xmcloud.core.specs import Image, JobSpec, Tensorboard, VertexOptions

WORKER_POOLS = 4
"""Jobs of one group."""

GIB = 1 << 30
_DISK_GB = (100, 64_000)
_DEFAULT = "n1-standard-4"
_RESERVED_LABELS = "xmcloud-"
_TPU = "tpu-"


class Defined(Protocol):
    """A job, or one to be made."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> JobSpec: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, its accelerators and its boot disk.

    `accelerator` is a name of the service's `AcceleratorType`; a machine whose type alone tells
    its TPU has none, but a topology.
    """

    machine_type: str
    accelerator: str = ""
    count: int = 0
    tpu_topology: str = ""
    disk_gb: int = _DISK_GB[0]


def vertex_machine(spec: JobSpec) -> Machine:
    """The smallest machine that has what the job needs. Raises `InvalidInput`."""
    accelerators = [name for name in spec.resources if name not in ("cpu", "memory", "disk")]
    if len(accelerators) > 1:
        raise InvalidInput("resources", sorted(accelerators), "one accelerator on Vertex AI")
    if not accelerators:
        size = _smallest(N1, spec)
        return Machine(size.machine_type, disk_gb=_disk(spec))
    [name] = accelerators
    family = _family(name, spec.resources[name])
    size = _smallest(_of_shape(name, family, spec), spec)
    count = size.count if family.accelerator else 0
    return Machine(size.machine_type, family.accelerator, count, size.topology, _disk(spec))


def check_vertex_group(jobs: Sequence[Defined]) -> None:
    """Whether the jobs can be the worker pools of one Vertex AI job. Raises `InvalidInput`."""
    if len(jobs) > WORKER_POOLS:
        raise InvalidInput("jobs", len(jobs), f"at most {WORKER_POOLS} of a group on Vertex AI")
    if jobs[0].spec.replicas != 1:
        raise InvalidInput(
            "replicas", jobs[0].spec.replicas, f"1 for {jobs[0].name}, the first of its group"
        )
    boards = {options.tensorboard for options in map(vertex_options, jobs) if options.tensorboard}
    if len(boards) > 1:
        names = sorted(board.name for board in boards)
        raise InvalidInput("tensorboard", names, "one for all jobs of a group")
    for job in jobs:
        _check_job(job, alone=len(jobs) == 1)


def vertex_options(job: Defined) -> VertexOptions:
    """What the job says to Vertex AI alone. Raises `InvalidInput` if it speaks to another."""
    options = job.spec.platform or VertexOptions()
    if not isinstance(options, VertexOptions):
        raise InvalidInput("platform.kind", options.kind, "vertex where a job goes to Vertex AI")
    return options


def vertex_tensorboard(jobs: Sequence[Defined]) -> Tensorboard | None:
    """The one that a job of the group names."""
    boards = (vertex_options(job).tensorboard for job in jobs)
    return next((board for board in boards if board is not None), None)


def _check_job(job: Defined, *, alone: bool) -> None:
    executable = job.spec.executable
    if not isinstance(executable, Image):
        raise InvalidInput("executable.kind", executable.kind, "image, which Vertex AI runs")
    for name in ("ports", "volumes", "interactive"):
        if value := getattr(executable.options, name):
            raise InvalidInput(f"executable.options.{name}", value, "left out on Vertex AI")
    for label in vertex_options(job).labels:
        if label.startswith(_RESERVED_LABELS):
            raise InvalidInput("labels", label, f"a name without {_RESERVED_LABELS} in front")
    vertex_machine(job.spec)
    if any(name.startswith(_TPU) for name in job.spec.resources):
        if not alone:
            raise InvalidInput("resources", dict(job.spec.resources), "no TPU in a group")
        if job.spec.replicas != 1:
            raise InvalidInput("replicas", job.spec.replicas, "1 with a TPU; its topology is wider")


def _family(name: str, amount: float) -> Family:
    family = FAMILIES.get(name)
    if family is None:
        offered = ", ".join(sorted(FAMILIES.keys() - {"l4-24th"}))
        raise InvalidInput("resources", name, f"cpu, memory, disk or one of {offered}")
    counts = sorted({size.count for size in family.sizes})
    if amount not in counts:
        shown = ", ".join(map(str, counts))
        raise InvalidInput(f"resources.{name}", amount, f"a number that Vertex AI offers: {shown}")
    return family


def _of_shape(name: str, family: Family, spec: JobSpec) -> list[Size]:
    """The sizes with that number of chips and, for a TPU that is asked in a shape, that shape."""
    sizes = [size for size in family.sizes if size.count == spec.resources[name]]
    if not (name.startswith(_TPU) and spec.topology):
        return sizes
    fitting = [size for size in sizes if _has_shape(size, spec.topology)]
    if not fitting:
        shapes = {size.topology or f"a shape of {size.count} chips" for size in sizes}
        raise InvalidInput("topology", spec.topology, " or ".join(sorted(shapes)))
    return fitting


def _has_shape(size: Size, topology: str) -> bool:
    if not size.topology:
        return math.prod(sides(topology)) == size.count
    return sides(topology) == sides(size.topology)


def _smallest(sizes: Sequence[Size], spec: JobSpec) -> Size:
    cpus, memory = spec.resources.get("cpu", 0), spec.resources.get("memory", 0)
    if not cpus and not memory:
        for size in sizes:
            if size.machine_type == _DEFAULT:
                return size
    fitting = [s for s in sizes if s.cpus >= cpus and s.memory_gib * GIB >= memory]
    if fitting:
        return min(fitting, key=lambda size: (size.cpus, size.memory_gib))
    largest = max(sizes, key=lambda size: (size.memory_gib, size.cpus))
    if cpus > max(size.cpus for size in sizes):
        raise InvalidInput("resources.cpu", cpus, f"at most {max(s.cpus for s in sizes)}")
    raise InvalidInput(
        "resources.memory",
        memory,
        f"at most {int(largest.memory_gib * GIB)} bytes, as {largest.machine_type} has",
    )


def _disk(spec: JobSpec) -> int:
    least, most = _DISK_GB
    size = math.ceil(spec.resources.get("disk", 0) / GIB)
    if size > most:
        raise InvalidInput("resources.disk", spec.resources["disk"], f"at most {most * GIB} bytes")
    return max(least, size)
