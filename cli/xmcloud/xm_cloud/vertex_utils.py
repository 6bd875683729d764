"""Where the machines of a job on Vertex AI are: stands for XManager's `vertex_utils` in a job.

Needs nothing else of xmcloud, so that the file can be copied beside the code, and runs under
whatever Python from 3.6 on an image has.
"""

import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

CLUSTER_SPEC = "CLUSTER_SPEC"
"""The variable in which Vertex AI tells of the worker pools of a job."""

_ALONE = ("127.0.0.1", "29500")
_NAMED = re.compile(r"%objectname\(([^()]*)\)%")


def get_master_address_port() -> "tuple[str, str]":
    """Host and port of the first machine; outside of Vertex AI, this one and 29500."""
    masters = _pools().get("workerpool0")
    if not masters:
        return _ALONE
    host, _, port = masters[0].rpartition(":")
    return host, port


def get_world_size_rank() -> "tuple[int, int]":
    """How many machines there are and, from 0, which one this is; pools count in their order."""
    size, rank = 0, 0
    task = _spec().get("task", {})
    for pool, machines in _pools().items():
        if pool == task.get("type"):
            rank = size + int(task.get("index", 0))
        size += len(machines)
    return max(size, 1), rank


def map_workerpool_address_args(args: "Sequence[str]") -> "list[str]":
    """The arguments with HOST:PORT of its first machine for each `%objectname(POOL)%`.

    Outside of Vertex AI they stay as they are. Raises KeyError for a pool that is not there.
    """
    pools = _pools()
    return [
        _NAMED.sub(lambda named: pools[named.group(1)][0], arg) if pools else arg for arg in args
    ]


def create_workerpool_address_env_vars_script(path: str) -> None:
    """Writes a script for bash that sets the variables whose value is a `%objectname(POOL)%`.

    Raises KeyError for a pool that is not there.
    """
    pools = _pools()
    lines = []
    for name, value in os.environ.items():
        named = _NAMED.fullmatch(value)
        if pools and named:
            lines.append(f"export {name}={shlex.quote(pools[named.group(1)][0])}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(["#!/bin/bash", "", *lines]))


def _pools() -> "dict[str, list[str]]":
    pools = _spec().get("cluster", {})
    return pools if isinstance(pools, dict) else {}


def _spec() -> "dict[str, Any]":
    """Empty outside of Vertex AI."""
    spec = json.loads(os.environ.get(CLUSTER_SPEC) or "{}")
    return spec if isinstance(spec, dict) else {}
