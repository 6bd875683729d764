"""Clusters of Google Kubernetes Engine, made for jobs to run on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xmcloud.core.base import Model
from xmcloud.core.errors import AlreadyExists, InvalidInput, NotFound, Unauthorized, XmcloudError

if TYPE_CHECKING:
    from google.cloud.container_v1 import (
        Cluster,
        ClusterManagerClient,
        NodeConfig,
        NodePool,
        Operation,
    )

_CALL_SECONDS = 30.0
_LOOK_SECONDS = 5.0
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class GkeMissing(XmcloudError):
    """The packages that talk to Google Cloud are not installed."""

    slug, title, status = "gcp-missing", "Not installed", 500


class GkeRefused(XmcloudError):
    """GKE does not do it, as it stands."""

    slug, title, status = "gke-refused", "Refused by GKE", 409


@dataclass(frozen=True, slots=True)
class Nodes:
    """The machines of a cluster that does not choose them itself; `count` is for each zone."""

    machine_type: str
    count: int
    accelerator: str = ""
    accelerators: int = 0
    spot: bool = False


class ClusterInfo(Model):
    """A cluster as GKE tells of it."""

    name: str
    location: str
    state: str
    autopilot: bool
    nodes: int
    version: str


class Clusters(Model):
    clusters: list[ClusterInfo]


class Gke:
    """The clusters of a project in one location; `-` are all of them, to list.

    `endpoint` is the host:port of a stand-in. All methods raise `Unavailable`, `Unauthorized` and
    `GkeRefused`.
    """

    def __init__(
        self,
        project: str,
        location: str,
        endpoint: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._project = project
        self._parent = f"projects/{project}/locations/{location}"
        self._sleep = sleep
        self._client = _connected(endpoint)

    def create(self, name: str, nodes: Nodes | None) -> str:
        """Begins to make a cluster, on Autopilot without `nodes`; names the operation.

        Raises `AlreadyExists`, and `InvalidInput` for an accelerator that GKE does not have.
        """
        from google.cloud.container_v1 import Autopilot, Cluster, WorkloadIdentityConfig

        cluster = Cluster(name=name)
        if nodes is None:
            cluster.autopilot = Autopilot(enabled=True)
        else:
            pool = f"{self._project}.svc.id.goog"
            cluster.workload_identity_config = WorkloadIdentityConfig(workload_pool=pool)
            cluster.node_pools = [_pool(nodes)]
        with _told(name, new=True):
            begun = self._client.create_cluster(
                parent=self._parent, cluster=cluster, timeout=_CALL_SECONDS
            )
        return self._operation(begun)

    def delete(self, name: str) -> str:
        """Begins to delete it, and names the operation. Raises `NotFound`."""
        with _told(name):
            begun = self._client.delete_cluster(name=self._name(name), timeout=_CALL_SECONDS)
        return self._operation(begun)

    def wait(self, operation: str, progress: Callable[[str], None]) -> None:
        """Until it is done; tells `progress` what is new. Raises `GkeRefused` when it failed."""
        said = ""
        while True:
            with _told():
                now = self._client.get_operation(name=operation, timeout=_CALL_SECONDS)
            if now.status is type(now.status).DONE:
                break
            news = now.detail or now.status.name.lower()
            if news != said:
                progress(news)
                said = news
            self._sleep(_LOOK_SECONDS)
        if now.error.code:
            raise GkeRefused(f"GKE gave up: {now.error.message}.", "Change that, and try again.")

    def get(self, name: str) -> ClusterInfo:
        """Raises `NotFound`."""
        with _told(name):
            return _info(self._client.get_cluster(name=self._name(name), timeout=_CALL_SECONDS))

    def list(self) -> Clusters:
        with _told():
            found = self._client.list_clusters(parent=self._parent, timeout=_CALL_SECONDS)
        return Clusters(clusters=[_info(cluster) for cluster in found.clusters])

    def close(self) -> None:
        self._client.transport.close()

    def _name(self, cluster: str) -> str:
        return f"{self._parent}/clusters/{cluster}"

    def _operation(self, begun: "Operation") -> str:
        return f"{self._parent}/operations/{begun.name}"


def _connected(endpoint: str) -> "ClusterManagerClient":
    from xmcloud.adapters.kubernetes.connections import gke_client

    try:
        with _told():
            return gke_client(endpoint)
    except ModuleNotFoundError as error:
        raise GkeMissing(
            f"The package {error.name} is not installed.", "Run: pip install 'xmcloud[gcp]'"
        ) from error


def _pool(nodes: Nodes) -> "NodePool":
    from google.cloud.container_v1 import NodeConfig, NodePool, WorkloadMetadataConfig

    config = NodeConfig(
        machine_type=nodes.machine_type,
        spot=nodes.spot,
        oauth_scopes=[_SCOPE],
        workload_metadata_config=WorkloadMetadataConfig(
            mode=WorkloadMetadataConfig.Mode.GKE_METADATA
        ),
    )
    if nodes.accelerator:
        _add_accelerator(config, nodes)
    return NodePool(name="jobs", initial_node_count=nodes.count, config=config)


def _add_accelerator(config: "NodeConfig", nodes: Nodes) -> None:
    from google.cloud.container_v1 import AcceleratorConfig, GPUDriverInstallationConfig

    from xmcloud.adapters.kubernetes.accelerators import GPUS

    name = nodes.accelerator.lower().replace("_", "-")
    kind = GPUS.get(name, name)
    if kind not in GPUS.values():
        raise InvalidInput("accelerator", nodes.accelerator, f"one of {', '.join(GPUS)}")
    driver = GPUDriverInstallationConfig(
        gpu_driver_version=GPUDriverInstallationConfig.GPUDriverVersion.DEFAULT
    )
    config.accelerators = [
        AcceleratorConfig(
            accelerator_type=kind,
            accelerator_count=nodes.accelerators,
            gpu_driver_installation_config=driver,
        )
    ]


def _info(cluster: "Cluster") -> ClusterInfo:
    return ClusterInfo(
        name=cluster.name,
        location=cluster.location,
        state=cluster.status.name.lower(),
        autopilot=cluster.autopilot.enabled,
        nodes=cluster.current_node_count,
        version=cluster.current_master_version,
    )


@contextmanager
def _told(cluster: str = "", *, new: bool = False) -> Iterator[None]:
    """The core's errors in place of Google's."""
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    from xmcloud.adapters.gcp.failures import translated

    try:
        with translated("GKE"):
            yield
    except GoogleAuthError as error:
        raise _unknown_caller(str(error)) from error
    except exceptions.Unauthorized as error:
        raise _unknown_caller(error.message) from error
    except exceptions.Forbidden as error:
        raise Unauthorized(
            f"GKE does not allow it: {error.message}.",
            "Ask for the role roles/container.admin in the project.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        if cluster and not new and isinstance(error, exceptions.NotFound):
            raise NotFound("cluster", cluster, "List them: xmcloud cluster list") from error
        if new and isinstance(error, exceptions.AlreadyExists):
            raise AlreadyExists("cluster", cluster) from error
        raise GkeRefused(f"GKE refused: {error.message}.", "Change that, and try again.") from error


def _unknown_caller(why: str) -> Unauthorized:
    return Unauthorized(
        f"Google does not know who calls: {why}.", "Run: gcloud auth application-default login"
    )
