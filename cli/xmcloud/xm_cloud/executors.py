"""Where jobs can run: on this machine, on a pool of workers, or in the cloud."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from xmcloud import xm
from xmcloud.core import specs
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.unsupported import warn_of_unused

GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER = "GOOGLE_KUBERNETES_ENGINE"
VERTEX, KUBERNETES = "vertex", "kubernetes"


@dataclass(frozen=True)
class LocalSpec(xm.ExecutorSpec):
    """Packages to run on this machine."""


@dataclass(frozen=True)
class WorkerPoolSpec(xm.ExecutorSpec):
    """Packages to run on any machine with a worker."""


@dataclass(frozen=True)
class VertexSpec(xm.ExecutorSpec):
    """Packages as an image that Vertex AI can pull; pushed to `push_image_tag` if that is given."""

    push_image_tag: str | None = None


@dataclass(frozen=True)
class KubernetesSpec(xm.ExecutorSpec):
    """Packages as an image that a cluster can pull; pushed to `push_image_tag` if it is given."""

    push_image_tag: str | None = None


@dataclass(frozen=True)
class OverflowSpec(xm.ExecutorSpec):
    """Packages as an image that workers and the cloud can pull."""

    push_image_tag: str | None = None


class PlacedExecutor(xm.Executor, ABC):
    """An executor of this control plane: where its jobs wait, and what they say to the platform.

    `queue` is None where the importance of the unit chooses it.
    """

    queue: str | None
    replicated: ClassVar[bool] = False
    """Whether the platform runs the replicas of a job; else each is a job of the group."""

    @property
    @abstractmethod
    def pool(self) -> str:
        """The worker pool or target that runs its jobs; '' for any pool."""

    @property
    def overflow(self) -> specs.Overflow | None:
        return None

    @property
    def platform(self) -> specs.PlatformOptions | None:
        """Raises ValidationError for options that no platform takes."""
        return None

    @property
    def topology(self) -> str:
        """How the chips of a TPU hang together; '' where their number says it."""
        asked = self.requirements.topology
        if self.requirements.accelerator not in xm.TpuType or asked is None:
            return ""
        if "_" in asked.name:
            plain = asked.name.partition("_")[0]
            raise InvalidInput("topology", asked.name, f"without a twist here: {plain!r}")
        return asked.name if len(asked.dimensions) > 1 else ""

    def resources(self) -> dict[str, float]:
        """What one replica takes: vCPUs, bytes of memory and disk, accelerators by type."""
        wanted = self.requirements
        amounts = {
            kind: wanted.accelerator_count if kind in xm.AcceleratorType else amount
            for kind, amount in wanted.task_requirements.items()
        }
        return {resource_name(kind): float(size) for kind, size in amounts.items() if size > 0}


_NAMES = {xm.ResourceType.EPHEMERAL_STORAGE: "disk", xm.ResourceType.LOCAL_GPU: "gpu"}


def resource_name(kind: xm.ResourceType) -> str:
    """What workers and platforms call it."""
    return _NAMES.get(kind, kind.name.lower().replace("_", "-"))


def _warn_of_cloud_wishes(requirements: xm.JobRequirements) -> None:
    warn_of_unused("location", requirements.location, None, "on a worker's machine")
    tier = requirements.service_tier
    warn_of_unused("service_tier", tier, xm.ServiceTier.PROD, "on a worker's machine")


@dataclass(frozen=True)
class DockerOptions:
    """How a container runs: `ports` is container to host, `volumes` host to container.

    With `mount_gcs_path`, ~/gcs of this machine is /gcs in the container, if it is there.
    With `interactive`, leaving the experiment attaches the terminal to the container.
    """

    ports: Mapping[int | str, int] | None = None
    volumes: Mapping[str, str] | None = None
    mount_gcs_path: bool = True
    interactive: bool = False


@dataclass(frozen=True)
class Local(PlacedExecutor):
    """A process or container on this machine; leaving the experiment waits for it.

    With `experimental_stream_output` its output is shown while the experiment waits.
    """

    Spec: ClassVar[type[LocalSpec]] = LocalSpec
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    docker_options: DockerOptions | None = None
    experimental_stream_output: bool = True
    queue: str | None = None

    @property
    def pool(self) -> str:
        return "local"

    @property
    def interactive(self) -> bool:
        return self.docker_options is not None and self.docker_options.interactive

    def resources(self) -> dict[str, float]:
        _warn_of_cloud_wishes(self.requirements)
        return super().resources()


@dataclass(frozen=True)
class WorkerPool(PlacedExecutor):
    """A process or container on a machine with a worker of that pool (any pool by default)."""

    Spec: ClassVar[type[WorkerPoolSpec]] = WorkerPoolSpec
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    pool: str = ""
    queue: str | None = None

    def resources(self) -> dict[str, float]:
        _warn_of_cloud_wishes(self.requirements)
        return super().resources()


@dataclass(frozen=True)
class TensorboardCapability:
    """A TensorBoard instance of Vertex AI that shows what its jobs write.

    They write below `base_output_directory`, a folder in Cloud Storage; by default a folder of
    the control plane's own bucket.
    """

    name: str
    base_output_directory: str | None = None


@dataclass(frozen=True)
class Vertex(PlacedExecutor):
    """A container on Vertex AI, on the smallest machine that fits.

    `location` of the requirements is a region. A service tier below PROD means spot machines,
    unless `spot` says otherwise. `restart` runs the whole job again when a machine restarts.
    """

    Spec: ClassVar[type[VertexSpec]] = VertexSpec
    replicated: ClassVar[bool] = True
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    tensorboard: TensorboardCapability | None = None
    service_account: str = ""
    network: str = ""
    spot: bool | None = None
    restart: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None

    @property
    def pool(self) -> str:
        return VERTEX

    @property
    def platform(self) -> specs.VertexOptions:
        board = self.tensorboard
        return specs.VertexOptions(
            location=self.requirements.location or "",
            service_account=self.service_account,
            network=self.network,
            spot=_spot(self.spot, self.requirements),
            restart=self.restart,
            tensorboard=specs.Tensorboard(name=board.name, output=_folder(board))
            if board
            else None,
            labels=dict(self.labels),
        )


def _folder(board: TensorboardCapability) -> str:
    output = board.base_output_directory or ""
    return output if not output or output.startswith("gs://") else f"gs://{output.lstrip('/')}"


@dataclass(frozen=True)
class TpuCapability:
    """The TPU software and topology that a job asks for.

    GKE chooses the software by the image, so that `tpu_runtime_version` changes nothing.
    """

    tpu_runtime_version: str = ""
    topology: str = ""


@dataclass(frozen=True)
class Kubernetes(PlacedExecutor):
    """A container on a Kubernetes cluster.

    `location` of the requirements is a region or zone of its nodes. Elsewhere than on GKE, a job
    gets GPUs of whatever type there is, and no TPU.
    """

    Spec: ClassVar[type[KubernetesSpec]] = KubernetesSpec
    replicated: ClassVar[bool] = True
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    cloud_provider: str = GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER
    tpu_capability: TpuCapability | None = None
    namespace: str = ""
    service_account: str = ""
    spot: bool | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None

    @property
    def pool(self) -> str:
        return KUBERNETES

    @property
    def platform(self) -> specs.KubernetesOptions:
        return specs.KubernetesOptions(
            namespace=self.namespace,
            service_account=self.service_account or flags.kubernetes_account(),
            spot=_spot(self.spot, self.requirements),
            node_selector={**_selector(self.requirements), **self.node_selector},
            labels=dict(self.labels),
        )

    @property
    def topology(self) -> str:
        wanted, asked = self.tpu_capability, super().topology
        if wanted is None:
            return asked
        warn_of_unused("tpu_runtime_version", wanted.tpu_runtime_version, "", "on Kubernetes")
        if asked and wanted.topology not in ("", asked):
            raise InvalidInput("tpu_capability.topology", wanted.topology, f"{asked!r} or left out")
        return wanted.topology or asked

    def resources(self) -> dict[str, float]:
        resources, accelerator = super().resources(), self.requirements.accelerator
        if accelerator is None or self.cloud_provider == GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER:
            return resources
        if accelerator in xm.TpuType:
            expected = f"{GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER} for a job with a TPU"
            raise InvalidInput("cloud_provider", self.cloud_provider, expected)
        count = resources.pop(resource_name(accelerator))
        return {**resources, resource_name(xm.ResourceType.LOCAL_GPU): count}


@dataclass(frozen=True)
class Overflow(PlacedExecutor):
    """A container on a worker of the pool or, if none takes it in time, in the cloud.

    `after` is in seconds. What no worker of the pool could ever fit goes to `target` at once.
    """

    Spec: ClassVar[type[OverflowSpec]] = OverflowSpec
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    pool: str = "local"
    target: str = VERTEX
    after: float | timedelta = 300.0
    spot: bool | None = None
    queue: str | None = None

    @property
    def overflow(self) -> specs.Overflow:
        after = self.after
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        return specs.Overflow(target=self.target, after_seconds=seconds)

    @property
    def platform(self) -> specs.PlatformOptions:
        cloud: PlacedExecutor
        match self.target:
            case "vertex":
                cloud = Vertex(self.requirements, spot=self.spot)
            case "kubernetes":
                cloud = Kubernetes(self.requirements, spot=self.spot)
            case _:
                raise InvalidInput("target", self.target, f"{VERTEX!r} or {KUBERNETES!r}")
        assert cloud.platform is not None
        return cloud.platform


Caip, CaipSpec = Vertex, VertexSpec


def _spot(asked: bool | None, requirements: xm.JobRequirements) -> bool:
    return requirements.service_tier is not xm.ServiceTier.PROD if asked is None else asked


def _selector(requirements: xm.JobRequirements) -> dict[str, str]:
    """The nodes of a region such as `us-central1`, or of a zone such as `us-central1-a`."""
    location = requirements.location
    if not location:
        return {}
    kind = "zone" if location.count("-") > 1 else "region"
    return {f"topology.kubernetes.io/{kind}": location}


def shown(executor: xm.Executor) -> str:
    """How a script names an executor of its kind."""
    return f"{type(executor).__name__}(..)"
