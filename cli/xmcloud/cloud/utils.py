"""Addresses of jobs on Vertex AI: what a launch script writes for them, and what a job reads."""

from xmcloud.xm import get_workerpool_address
from xmcloud.xm_cloud.vertex_utils import (
    create_workerpool_address_env_vars_script,
    get_master_address_port,
    get_world_size_rank,
    map_workerpool_address_args,
)

__all__ = [
    "create_workerpool_address_env_vars_script",
    "get_master_address_port",
    "get_workerpool_address",
    "get_world_size_rank",
    "map_workerpool_address_args",
]
