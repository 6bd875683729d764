"""Where jobs can run: on this machine, or on a pool of workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from xmcloud import xm
from xmcloud.xm_cloud.unsupported import Unsupported, warn_of_unused


@dataclass(frozen=True)
class LocalSpec(xm.ExecutorSpec):
    """Packages to run on this machine."""


@dataclass(frozen=True)
class WorkerPoolSpec(xm.ExecutorSpec):
    """Packages to run on any machine with a worker."""


@dataclass(frozen=True)
class DockerOptions:
    """How a container runs: `ports` is container to host, `volumes` host to container."""

    ports: Mapping[int, int] | None = None
    volumes: Mapping[str, str] | None = None
    mount_gcs_path: bool = True
    interactive: bool = False


@dataclass(frozen=True)
class Local(xm.Executor):
    """A process on this machine; leaving the experiment waits for it.

    With `experimental_stream_output` its output is shown while the experiment waits.
    """

    Spec: ClassVar[type[LocalSpec]] = LocalSpec
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    docker_options: DockerOptions | None = None
    experimental_stream_output: bool = True

    def __post_init__(self) -> None:
        if self.docker_options is not None:
            raise Unsupported(
                f"docker_options is {self.docker_options}, but local jobs run as processes.",
                "Leave docker_options out: a process sees this machine's ports and files.",
            )

    @property
    def pool(self) -> str:
        return "local"

    @property
    def queue(self) -> str:
        return "default"


@dataclass(frozen=True)
class WorkerPool(xm.Executor):
    """A process on a machine with a worker of that pool (any pool by default)."""

    Spec: ClassVar[type[WorkerPoolSpec]] = WorkerPoolSpec
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    pool: str = ""
    queue: str = "default"


NAMES = {xm.ResourceType.EPHEMERAL_STORAGE: "disk", xm.ResourceType.LOCAL_GPU: "gpu"}


def resources_of(requirements: xm.JobRequirements) -> dict[str, float]:
    """What the job takes of a worker: vCPUs, bytes of `memory` and `disk`, accelerators by type.

    Raises `Unsupported` for several replicas.
    """
    if requirements.replicas > 1:
        raise Unsupported(
            f"replicas is {requirements.replicas}, but a worker runs a job once.",
            "Ask for one replica; several machines for one job come with groups.",
        )
    warn_of_unused("location", requirements.location, None)
    warn_of_unused("service_tier", requirements.service_tier, xm.ServiceTier.PROD)
    return {
        NAMES.get(kind, kind.name.lower().replace("_", "-")): float(amount)
        for kind, amount in requirements.task_requirements.items()
        if amount > 0
    }
