"""What a custom job of Vertex AI is told, and what is read of one."""

import json

import pytest
from google.cloud import aiplatform_v1 as vertex

from tests.contracts.platforms import group, job, launch, one
from xmcloud.adapters.gcp.vertex import VertexPlatform
from xmcloud.adapters.gcp.vertex_spec import custom_job
from xmcloud.adapters.gcp.vertex_state import platform_job
from xmcloud.core.errors import InvalidInput
from xmcloud.core.machines import GIB
from xmcloud.core.models import Job
from xmcloud.core.platforms import PlatformState
from xmcloud.core.specs import Argument, Limits, Tensorboard, VertexOptions

NAME = "projects/proj/locations/us-central1/customJobs/42"
BOARD = Tensorboard(name="projects/p/locations/us-central1/tensorboards/1", output="gs://b/logs")
ACCOUNT = "train@proj.iam.gserviceaccount.com"


def made(*jobs: Job) -> vertex.CustomJob:
    return custom_job(launch("lab-1", *jobs), "outputs", "default@proj", "net")


def pools(*jobs: Job) -> list[vertex.WorkerPoolSpec]:
    return list(made(*jobs).job_spec.worker_pool_specs)


def told(options: VertexOptions) -> vertex.CustomJob:
    train = one("true")
    return made(train.evolve(spec=train.spec.evolve(platform=options)))


def variables(pool: vertex.WorkerPoolSpec) -> dict[str, str]:
    return {variable.name: variable.value for variable in pool.container_spec.env}


def test_a_job_is_a_pool_of_its_replicas_on_its_machine() -> None:
    train = one("true")
    resources = {"t4": 2.0, "cpu": 8.0, "disk": 150.0 * GIB}
    [pool] = pools(train.evolve(spec=train.spec.evolve(resources=resources)))
    machine = pool.machine_spec
    assert machine.machine_type == "n1-standard-8"
    assert (machine.accelerator_type.name, machine.accelerator_count) == ("NVIDIA_TESLA_T4", 2)
    assert (pool.replica_count, pool.disk_spec.boot_disk_size_gb) == (1, 150)
    assert pool.container_spec.image_uri == "registry.example/train@sha256:1"


def test_a_tpu_is_told_by_its_machine_and_shape() -> None:
    train = one("true")
    tpu = train.spec.evolve(resources={"tpu-v5e": 16.0}, topology="4x4")
    [pool] = pools(train.evolve(spec=tpu))
    machine = pool.machine_spec
    assert (machine.machine_type, machine.tpu_topology) == ("ct5lp-hightpu-4t", "4x4")
    assert (machine.accelerator_type.name, machine.accelerator_count) == (
        "ACCELERATOR_TYPE_UNSPECIFIED",
        0,
    )


def test_arguments_are_the_exact_argv() -> None:
    train = one("true")
    arguments = (
        Argument(name="rate", value=0.1),
        Argument(name="fast", value=True),
        Argument(name="seeds", value=[1, 2]),
        Argument(value="a b"),
    )
    [pool] = pools(train.evolve(spec=train.spec.evolve(arguments=arguments)))
    assert list(pool.container_spec.command) == ["/bin/sh", "-c"]
    assert list(pool.container_spec.args) == [
        "--rate=0.1",
        "--fast",
        "--seeds=1",
        "--seeds=2",
        "a b",
    ]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("echo $(date) $HOME", "echo $(date) $HOME"),
        ("$(A)", "$$(A)"),
        ("$(CLUSTER_SPEC)", "$$(CLUSTER_SPEC)"),
        ("$$", "$$$$"),
        ("$$(A)", "$$$$(A)"),
    ],
)
def test_only_what_the_service_would_replace_is_escaped(text: str, sent: str) -> None:
    [pool] = pools(one(text, A="1"))
    assert pool.container_spec.args[0] == sent


def test_the_environment_says_where_checkpoints_go() -> None:
    train = one("true", A="1")
    [pool] = pools(train)
    checkpoint = f"/gcs/outputs/checkpoints/{train.id}"
    assert variables(pool) == {"A": "1", "ATTEMPT": "1", "XMCLOUD_CHECKPOINT": checkpoint}


def test_a_group_has_its_names_in_the_order_of_its_pools() -> None:
    both = pools(*group(job("chief", "true"), job("worker", "true")))
    names = [json.loads(variables(pool)["XMCLOUD_POOLS"]) for pool in both]
    assert names == [["chief", "worker"]] * 2


def test_labels_find_the_attempt_and_where_it_belongs() -> None:
    train = one("true")
    assert dict(told(VertexOptions(labels={"team": "vision"})).labels) == {
        "team": "vision",
        "xmcloud-label": "lab-1",
        "xmcloud-experiment": train.experiment_id,
        "xmcloud-unit": "1",
    }


def test_the_display_name_is_as_long_as_it_may_be() -> None:
    long = made(one("true").evolve(name="n" * 500))
    assert long.display_name.startswith(one("true").experiment_id)
    assert len(long.display_name) == 128


def test_options_go_before_the_platforms_own() -> None:
    plain, own = told(VertexOptions()), told(VertexOptions(service_account=ACCOUNT, network="n"))
    assert (plain.job_spec.service_account, plain.job_spec.network) == ("default@proj", "net")
    assert (own.job_spec.service_account, own.job_spec.network) == (ACCOUNT, "n")


def test_a_tensorboard_without_a_folder_is_written_where_other_output_is() -> None:
    spec = told(VertexOptions(tensorboard=BOARD.evolve(output=""))).job_spec
    assert spec.tensorboard == BOARD.name
    assert spec.base_output_directory.output_uri_prefix == "gs://outputs/output/lab-1"


def test_a_tensorboard_is_written_where_it_says() -> None:
    spec = told(VertexOptions(tensorboard=BOARD)).job_spec
    assert spec.tensorboard == BOARD.name
    assert spec.base_output_directory.output_uri_prefix == BOARD.output


def test_outputs_go_to_the_bucket() -> None:
    spec = told(VertexOptions()).job_spec
    assert spec.base_output_directory.output_uri_prefix == "gs://outputs/output/lab-1"


def test_scheduling_follows_the_options_and_the_shortest_limit() -> None:
    jobs = group(*(job(name, "true") for name in ("chief", "worker")))
    limits = [Limits(runtime_seconds=90.5), Limits(runtime_seconds=60)]
    options = VertexOptions(spot=True, restart=True)
    jobs = [
        each.evolve(spec=each.spec.evolve(limits=limit, platform=options))
        for each, limit in zip(jobs, limits, strict=True)
    ]
    scheduling = made(*jobs).job_spec.scheduling
    assert scheduling.strategy.name == "SPOT"
    assert scheduling.restart_job_on_worker_restart
    assert vertex.Scheduling.to_dict(scheduling)["timeout"] == "60s"
    assert "timeout" not in made(one("true")).job_spec.scheduling


INSUFFICIENT = "Resources are insufficient in region: us-central1."
EXITED = "The replica workerpool1-0 exited with a non-zero status of 3. Termination reason: Error."


@pytest.mark.parametrize(
    ("state", "code", "message", "spot", "expected", "exit_code"),
    [
        ("QUEUED", 0, "", False, "pending", None),
        ("PENDING", 0, "", False, "pending", None),
        ("PAUSED", 0, "", False, "pending", None),
        ("RUNNING", 0, "", False, "running", None),
        ("UPDATING", 0, "", False, "running", None),
        ("CANCELLING", 0, "", False, "running", None),
        ("SUCCEEDED", 0, "", False, "succeeded", 0),
        ("CANCELLED", 1, "CANCELED", False, "cancelled", None),
        ("EXPIRED", 0, "", False, "failed", None),
        ("PARTIALLY_SUCCEEDED", 0, "", False, "failed", None),
        ("FAILED", 3, EXITED, False, "failed", 3),
        ("FAILED", 3, f"{EXITED} \nworker was preempted", True, "failed", 3),
        ("FAILED", 3, f"{EXITED} \nSTOCKOUT Internal error occurred", True, "failed", 3),
        (
            "FAILED",
            3,
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            False,
            "failed",
            137,
        ),
        ("FAILED", 3, "The image gcr.io/p/i is not found.", False, "failed", None),
        ("FAILED", 8, INSUFFICIENT, False, "broken", None),
        (
            "FAILED",
            8,
            INSUFFICIENT,
            True,
            "preempted",
            None,
        ),
        ("FAILED", 9, "STOCKOUT", True, "preempted", None),
        ("FAILED", 9, "The VM was preempted.", True, "preempted", None),
        ("FAILED", 13, "Internal error occurred for the current attempt", False, "broken", None),
        ("FAILED", 9, "Internal error occurred for the current attempt.", True, "broken", None),
        ("FAILED", 14, "unavailable", False, "broken", None),
    ],
)
def test_every_state_of_the_service(
    state: str, code: int, message: str, spot: bool, expected: str, exit_code: int | None
) -> None:
    custom = told(VertexOptions(spot=spot))
    custom.state = getattr(vertex.JobState, f"JOB_STATE_{state}")
    custom = vertex.CustomJob(custom, error={"code": code, "message": message})
    job = platform_job(custom, NAME, "proj")
    assert (job.state, job.exit_code) == (PlatformState(expected), exit_code)
    assert message in job.message


def test_no_state_of_the_service_is_unknown() -> None:
    for state in vertex.JobState.__members__.values():
        assert platform_job(vertex.CustomJob(state=state), NAME, "proj").state


def test_people_find_the_job_and_its_logs() -> None:
    job = platform_job(vertex.CustomJob(), NAME, "proj")
    console = "https://console.cloud.google.com"
    assert job.url == f"{console}/vertex-ai/locations/us-central1/training/42?project=proj"
    query = "resource.type%3D%22ml_job%22%20resource.labels.job_id%3D%2242%22"
    assert job.log_url == f"{console}/logs/query;query={query}?project=proj"


def platform(service_account: str = "") -> VertexPlatform:
    return VertexPlatform(
        "proj", ["us-central1", "europe-west4"], "outputs", service_account=service_account
    )


def having(options: VertexOptions) -> Job:
    train = one("true")
    return train.evolve(spec=train.spec.evolve(platform=options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (VertexOptions(location="asia-east1"), r"platform\.location.*us-central1, europe-west4"),
        (VertexOptions(tensorboard=BOARD), r"platform\.service_account.*TensorBoard"),
    ],
)
def test_what_never_could_run_is_refused_before_a_call(
    options: VertexOptions, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        platform().check([having(options)])


def test_what_could_run_passes() -> None:
    platform().check([having(VertexOptions(location="europe-west4"))])
    platform(ACCOUNT).check([having(VertexOptions(tensorboard=BOARD))])
    platform().check([having(VertexOptions(tensorboard=BOARD, service_account=ACCOUNT))])


@pytest.mark.parametrize(
    ("labels", "location"),
    [({}, "us-central1"), ({"compute.googleapis.com/zone": "europe-west4-b"}, "europe-west4")],
)
def test_a_log_entry_names_the_job(labels: dict[str, str], location: str) -> None:
    entry = {
        "logName": "projects/proj/logs/workerpool0-0",
        "resource": {"type": "ml_job", "labels": {"job_id": "42", "task_name": "workerpool0-0"}},
        "labels": labels,
    }
    name = f"projects/proj/locations/{location}/customJobs/42"
    assert platform().event(json.dumps(entry)) == name
