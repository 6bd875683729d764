"""Launches experiments: executors, experiments, and the client of the control plane.

Names are imported when they are used: a command that only needs the client does not load the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmcloud.xm_cloud.client import Client, connect
    from xmcloud.xm_cloud.executors import DockerOptions, Local, WorkerPool
    from xmcloud.xm_cloud.experiment import (
        Experiment,
        create_experiment,
        get_experiment,
        list_experiments,
    )
    from xmcloud.xm_cloud.units import WorkUnit
    from xmcloud.xm_cloud.unsupported import Unsupported

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

_HOMES = {
    "Client": "client",
    "DockerOptions": "executors",
    "Experiment": "experiment",
    "Local": "executors",
    "Unsupported": "unsupported",
    "WorkUnit": "units",
    "WorkerPool": "executors",
    "connect": "client",
    "create_experiment": "experiment",
    "get_experiment": "experiment",
    "list_experiments": "experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
