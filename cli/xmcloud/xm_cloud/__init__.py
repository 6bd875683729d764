"""Launches experiments: executors, experiments, and the client of the control plane.

Names are imported when they are used: a command that only needs the client does not load the rest.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmcloud.xm_cloud.client import (
        Client,
        connect,
    )
    from xmcloud.xm_cloud.executors import (
        GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER,
        Caip,
        CaipSpec,
        DockerOptions,
        Kubernetes,
        KubernetesSpec,
        Local,
        LocalSpec,
        Overflow,
        OverflowSpec,
        TensorboardCapability,
        TpuCapability,
        Vertex,
        VertexSpec,
        WorkerPool,
        WorkerPoolSpec,
    )
    from xmcloud.xm_cloud.experiment import (
        Experiment,
        create_experiment,
        get_experiment,
        list_experiments,
    )
    from xmcloud.xm_cloud.units import (
        AuxiliaryUnit,
        WorkUnit,
        WorkUnitCompletedAwaitable,
    )
    from xmcloud.xm_cloud.unsupported import (
        Unsupported,
    )

__all__ = [
    "GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER",
    "AuxiliaryUnit",
    "Caip",
    "CaipSpec",
    "Client",
    "DockerOptions",
    "Experiment",
    "Kubernetes",
    "KubernetesSpec",
    "Local",
    "LocalSpec",
    "Overflow",
    "OverflowSpec",
    "TensorboardCapability",
    "TpuCapability",
    "Unsupported",
    "Vertex",
    "VertexSpec",
    "WorkUnit",
    "WorkUnitCompletedAwaitable",
    "WorkerPool",
    "WorkerPoolSpec",
    "connect",
    "create_experiment",
    "get_experiment",
    "list_experiments",
]

_HOMES = {
    "AuxiliaryUnit": "units",
    "Caip": "executors",
    "CaipSpec": "executors",
    "Client": "client",
    "DockerOptions": "executors",
    "Experiment": "experiment",
    "GOOGLE_KUBERNETES_ENGINE_CLOUD_PROVIDER": "executors",
    "Kubernetes": "executors",
    "KubernetesSpec": "executors",
    "Local": "executors",
    "LocalSpec": "executors",
    "Overflow": "executors",
    "OverflowSpec": "executors",
    "TensorboardCapability": "executors",
    "TpuCapability": "executors",
    "Unsupported": "unsupported",
    "Vertex": "executors",
    "VertexSpec": "executors",
    "WorkUnit": "units",
    "WorkUnitCompletedAwaitable": "units",
    "WorkerPool": "executors",
    "WorkerPoolSpec": "executors",
    "connect": "client",
    "create_experiment": "experiment",
    "get_experiment": "experiment",
    "list_experiments": "experiment",
}

if "absl.flags" in sys.modules:
    from xmcloud.xm_cloud import flags

    flags.define()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
