"""Jobs as a custom job of Vertex AI describes them."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from google.cloud import aiplatform_v1 as vertex

from xmcloud.core.arguments import render
from xmcloud.core.machines import vertex_machine, vertex_options, vertex_tensorboard
from xmcloud.core.models import Job
from xmcloud.core.platforms import Launch
from xmcloud.core.specs import Image, VertexOptions

LABEL = "xmcloud-label"
POOLS = "XMCLOUD_POOLS"
CHECKPOINT = "XMCLOUD_CHECKPOINT"
_DISPLAY_NAME_LIMIT = 128
_SERVICE_VARIABLES = ("AIP_", "CLOUD_ML_", "CLUSTER_SPEC", "TF_CONFIG")
_DOLLARS = re.compile(r"\${2,}\(?|\$(?=\((\w+)\))")


def custom_job(launch: Launch, bucket: str, service_account: str, network: str) -> vertex.CustomJob:
    """The job that runs them together; the options are those of the first."""
    options = vertex_options(launch.jobs[0])
    board = vertex_tensorboard(launch.jobs)
    return vertex.CustomJob(
        display_name=launch.jobs[0].full_name[:_DISPLAY_NAME_LIMIT],
        labels=_labels(launch, options),
        job_spec=vertex.CustomJobSpec(
            worker_pool_specs=[_worker_pool(launch, job, bucket) for job in launch.jobs],
            scheduling=_scheduling(launch.jobs, options),
            service_account=options.service_account or service_account,
            network=options.network or network,
            base_output_directory=vertex.GcsDestination(
                output_uri_prefix=(board.output if board else "")
                or f"gs://{bucket}/output/{launch.label}"
            ),
            tensorboard=board.name if board else "",
        ),
    )


def _labels(launch: Launch, options: VertexOptions) -> dict[str, str]:
    job = launch.jobs[0]
    return {
        **options.labels,
        "xmcloud-experiment": job.experiment_id,
        "xmcloud-unit": str(job.unit),
        LABEL: launch.label,
    }


def _scheduling(jobs: Sequence[Job], options: VertexOptions) -> vertex.Scheduling:
    """Every job of a group keeps its own limit, so the shortest is that of all."""
    limits = [job.spec.limits.runtime_seconds for job in jobs]
    shortest = min((limit for limit in limits if limit is not None), default=None)
    strategies = vertex.Scheduling.Strategy
    return vertex.Scheduling(
        timeout=None if shortest is None else timedelta(seconds=shortest),
        restart_job_on_worker_restart=options.restart,
        strategy=strategies.SPOT if options.spot else strategies.STANDARD,
    )


def _worker_pool(launch: Launch, job: Job, bucket: str) -> vertex.WorkerPoolSpec:
    executable, machine = job.spec.executable, vertex_machine(job.spec)
    assert isinstance(executable, Image)
    environment = _environment(launch, job, bucket)
    return vertex.WorkerPoolSpec(
        machine_spec=vertex.MachineSpec(
            machine_type=machine.machine_type,
            accelerator_type=machine.accelerator or None,
            accelerator_count=machine.count,
            tpu_topology=machine.tpu_topology,
        ),
        replica_count=job.spec.replicas,
        disk_spec=vertex.DiskSpec(boot_disk_size_gb=machine.disk_gb),
        container_spec=vertex.ContainerSpec(
            image_uri=executable.image,
            command=[_exact(part, environment) for part in executable.command],
            args=[_exact(token, environment) for token in render(job.spec.arguments)],
            env=[
                vertex.EnvVar(name=name, value=_exact(value, environment))
                for name, value in environment.items()
            ],
        ),
    )


def _environment(launch: Launch, job: Job, bucket: str) -> dict[str, str]:
    ours = {CHECKPOINT: f"/gcs/{bucket}/checkpoints/{job.id}"}
    if len(launch.jobs) > 1:
        ours[POOLS] = json.dumps([member.name for member in launch.jobs])
    return {**job.spec.environment, **launch.environment.get(job.id, {}), **ours}


def _exact(text: str, environment: Mapping[str, str]) -> str:
    """Escaped so that it arrives as it is: the service replaces $(NAME), if there is such a
    variable, and $$ by $."""

    def doubled(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None or name in environment or name.startswith(_SERVICE_VARIABLES):
            return found.group().replace("$", "$$")
        return found.group()

    return _DOLLARS.sub(doubled, text)
