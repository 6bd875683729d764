"""What Vertex AI refuses of a custom job, and how it filters lists."""

import re
from collections.abc import Callable

from google.cloud import aiplatform_v1 as vertex

from xmcloud.core.machine_sizes import MACHINE_TYPES
from xmcloud.core.machines import WORKER_POOLS

_LABEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_LABELS = 64
_DISPLAY_NAME = 128
_DISK = range(100, 64_001)
# As numbers: read as members, one that is none of them makes a warning.
_STRATEGIES = frozenset(map(int, vertex.Scheduling.Strategy.__members__.values()))
_ACCELERATORS = frozenset(map(int, vertex.AcceleratorType.__members__.values()))
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TERM = re.compile(r'(labels\.[a-z0-9_-]+|state)\s*(=)\s*"?([^"\s]*)"?')


class Invalid(Exception):
    """What INVALID_ARGUMENT says."""


def check(job: vertex.CustomJob) -> None:
    """Raises `Invalid`."""
    if not 0 < len(job.display_name) <= _DISPLAY_NAME:
        raise Invalid(f"display_name must have 1 to {_DISPLAY_NAME} characters.")
    _check_labels(dict(job.labels))
    spec, pools = job.job_spec, job.job_spec.worker_pool_specs
    if not 0 < len(pools) <= WORKER_POOLS:
        raise Invalid(f"There must be 1 to {WORKER_POOLS} worker_pool_specs.")
    if pools[0].replica_count != 1:
        raise Invalid("replica_count of the first worker pool must be 1.")
    for index, pool in enumerate(pools):
        _check_pool(f"worker_pool_specs[{index}]", pool)
    output = spec.base_output_directory.output_uri_prefix
    if output and not output.startswith("gs://"):
        raise Invalid(f"base_output_directory {output!r} is not a Cloud Storage URI.")
    if spec.tensorboard and not (output and spec.service_account):
        raise Invalid("tensorboard needs base_output_directory and service_account.")
    if vertex.Scheduling.pb(spec.scheduling).strategy not in _STRATEGIES:
        raise Invalid("scheduling.strategy is unknown.")


def matcher(text: str) -> Callable[[vertex.CustomJob], bool]:
    """Of `labels.KEY="VALUE"` and `state="STATE"`, joined by AND. Raises `Invalid`."""
    terms = [_TERM.fullmatch(term.strip()) for term in text.split(" AND ")] if text else []
    if any(term is None for term in terms):
        raise Invalid(f"The filter {text!r} is not understood.")
    pairs = [(term[1], term[3]) for term in terms if term]
    return lambda job: all(_field(job, name) == value for name, value in pairs)


def _field(job: vertex.CustomJob, name: str) -> str | None:
    if name == "state":
        return str(job.state.name)
    return dict(job.labels).get(name.removeprefix("labels."))


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > _LABELS:
        raise Invalid(f"There may be {_LABELS} labels.")
    for name, value in labels.items():
        if not _LABEL_NAME.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
            raise Invalid(f"The label {name}={value} does not conform to the label syntax.")


def _check_pool(where: str, pool: vertex.WorkerPoolSpec) -> None:
    if not pool.container_spec.image_uri:
        raise Invalid(f"{where}.container_spec.image_uri must be set.")
    if pool.replica_count < 1:
        raise Invalid(f"{where}.replica_count must be at least 1.")
    if pool.disk_spec.boot_disk_size_gb not in (0, *_DISK):
        raise Invalid(f"{where}.disk_spec.boot_disk_size_gb must be 100 to 64000.")
    for variable in pool.container_spec.env:
        if not _C_IDENTIFIER.fullmatch(variable.name):
            raise Invalid(f"{where}.container_spec.env {variable.name!r} is no C identifier.")
    _check_machine(where, pool.machine_spec)


def _check_machine(where: str, machine: vertex.MachineSpec) -> None:
    if machine.machine_type not in MACHINE_TYPES:
        raise Invalid(f"Machine type {machine.machine_type!r} of {where} is not supported.")
    accelerator: int = vertex.MachineSpec.pb(machine).accelerator_type
    if accelerator not in _ACCELERATORS:
        raise Invalid(f"{where}.machine_spec.accelerator_type is unknown.")
    if (accelerator > 0) != (machine.accelerator_count > 0):
        raise Invalid(f"{where}.machine_spec: accelerator type and count go together.")
