"""Another name of `xmcloud.xm_cloud`: scripts run here and in the cloud by the same names."""

from xmcloud.xm_cloud import (
    Client,
    DockerOptions,
    Experiment,
    Local,
    Unsupported,
    WorkerPool,
    WorkUnit,
    connect,
    create_experiment,
    get_experiment,
    list_experiments,
)

__all__ = [
    "Client",
    "DockerOptions",
    "Experiment",
    "Local",
    "Unsupported",
    "WorkUnit",
    "WorkerPool",
    "connect",
    "create_experiment",
    "get_experiment",
    "list_experiments",
]
