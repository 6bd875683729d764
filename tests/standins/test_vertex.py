"""Vertex AI's stand-in, as the service's own client sees it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1 as vertex
from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
    JobServiceGrpcAsyncIOTransport,
)

from xmcloud.core.errors import Unavailable
from xmcloud.local.processes import LOOPBACK, free_ports
from xmcloud.local.standins import vertex_replicas
from xmcloud.local.standins.containers import Container, Processes, Running
from xmcloud.local.standins.faults import Faults, Plan
from xmcloud.local.standins.vertex import serve_vertex
from xmcloud.local.standins.vertex_jobs import Jobs

pytestmark = pytest.mark.anyio

PARENT = "projects/proj/locations/us-central1"
SECONDS = 30.0
ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


@dataclass
class Service:
    client: JobServiceAsyncClient
    faults: Faults
    folder: Path
    close: Callable[[], Any]
    entries: list[dict[str, Any]]

    async def ended(self, name: str) -> vertex.CustomJob:
        async with asyncio.timeout(SECONDS):
            while True:
                job = await self.client.get_custom_job(name=name)
                if state(job) in ENDED:
                    return job
                await asyncio.sleep(0.02)

    async def run(self, *pools: vertex.WorkerPoolSpec, **more: Any) -> vertex.CustomJob:
        made = await self.client.create_custom_job(parent=PARENT, custom_job=job(*pools, **more))
        return await self.ended(made.name)

    def log(self, name: str, replica: str = "workerpool0-0") -> Path:
        return self.folder / "logs" / name.rpartition("/")[2] / f"{replica}.log"

    def environment(self, name: str, replica: str = "workerpool0-0") -> dict[str, str]:
        told: dict[str, str] = json.loads(self.log(name, replica).read_text())
        return told


@pytest.fixture
async def service(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Service]:
    [port] = free_ports(1)
    channel = grpc.aio.insecure_channel(f"{LOOPBACK}:{port}")
    client = JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
    entries: list[dict[str, Any]] = []

    async def emit(body: str) -> None:
        entries.append(json.loads(body))

    serving = serve_vertex(
        port,
        "proj",
        ["us-central1", "europe-west4"],
        {"data": tmp_path / "data"},
        tmp_path / "logs",
        emit,
        faults := Faults(),
        Processes(),
    )
    service = Service(
        client, faults, tmp_path, lambda: serving.__aexit__(None, None, None), entries
    )
    await serving.__aenter__()
    yield service
    await channel.close()
    await service.close()


def pool(
    *command: str, replicas: int = 1, env: Mapping[str, str] | None = None, **machine: Any
) -> vertex.WorkerPoolSpec:
    return vertex.WorkerPoolSpec(
        machine_spec={"machine_type": "n1-standard-4", **machine},
        replica_count=replicas,
        container_spec={
            "image_uri": "registry.example/train",
            "command": command,
            "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        },
    )


def shell(script: str, **more: Any) -> vertex.WorkerPoolSpec:
    return pool("/bin/sh", "-c", script, **more)


def python(script: str, **more: Any) -> vertex.WorkerPoolSpec:
    return pool(sys.executable, "-c", script, **more)


def job(*pools: vertex.WorkerPoolSpec, spec: Any = None, **more: Any) -> vertex.CustomJob:
    made = {"worker_pool_specs": pools or [shell("true")], **(spec or {})}
    return vertex.CustomJob({"display_name": "train", "job_spec": made, **more})


def state(job: vertex.CustomJob) -> str:
    return str(job.state.name).removeprefix("JOB_STATE_")


async def test_names_have_the_number_of_the_project_and_either_finds_it(service: Service) -> None:
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job())
    _, project, _, location, _, id = made.name.split("/")
    assert (project.isdigit(), location, id.isdigit()) == (True, "us-central1", True)
    by_id = await service.client.get_custom_job(name=f"{PARENT}/customJobs/{id}")
    assert by_id.name == made.name


async def test_a_job_passes_through_its_states(service: Service) -> None:
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job())
    assert state(made) == "QUEUED"
    ended = await service.ended(made.name)
    times: list[Any] = [made.create_time, ended.start_time, ended.end_time]
    assert times == sorted(times)
    await service.close()
    messages = [entry["jsonPayload"]["message"] for entry in service.entries]
    assert messages == [
        "Job is queued.",
        "Job is preparing.",
        "Job is running.",
        "Job completed successfully.",
    ]
    assert {json.dumps(entry["resource"]) for entry in service.entries} == {
        json.dumps(
            {
                "type": "ml_job",
                "labels": {
                    "job_id": made.name.rpartition("/")[2],
                    "project_id": "proj",
                    "task_name": "service",
                },
            }
        )
    }


async def test_events_come_again_on_demand(service: Service) -> None:
    service.faults.plan = Plan(duplicates=2)
    await service.run(shell("true"))
    await service.close()
    assert len(service.entries) == 3 * 4


async def test_replicas_are_told_of_one_another(service: Service) -> None:
    """The first ends when all have written."""
    wait = 'until [ $(cat "$LOGS"/*/*.log | wc -l) = 4 ]; do sleep 0.02; done'
    tell = f"{sys.executable} -c '{ENVIRONMENT}'"
    logs = {"LOGS": str(service.folder / "logs")}
    ended = await service.run(
        shell(f"{tell}; {wait}", env=logs), shell(f"{tell}; sleep 100", replicas=3)
    )
    assert state(ended) == "SUCCEEDED"
    replicas = [("workerpool0", 0), *(("workerpool1", index) for index in range(3))]
    told = [
        json.loads(service.environment(ended.name, f"{name}-{index}")["CLUSTER_SPEC"])
        for name, index in replicas
    ]
    assert [spec["task"] for spec in told] == [{"type": t, "index": i} for t, i in replicas]
    assert {spec["environment"] for spec in told} == {"cloud"}
    [cluster] = {json.dumps(spec["cluster"]) for spec in told}
    addresses = json.loads(cluster)
    assert {name: len(of) for name, of in addresses.items()} == {"workerpool0": 1, "workerpool1": 3}
    assert len({address for of in addresses.values() for address in of}) == 4


async def test_the_services_own_variables(service: Service) -> None:
    output = {"base_output_directory": {"output_uri_prefix": "gs://data/out"}}
    ended = await service.run(python(ENVIRONMENT), spec=output)
    _, project, *_, id = ended.name.split("/")
    environment = service.environment(ended.name)
    assert environment["CLOUD_ML_PROJECT_ID"] == project
    assert environment["CLOUD_ML_JOB_ID"] == id
    assert environment["AIP_MODEL_DIR"] == "gs://data/out/model/"
    assert environment["AIP_CHECKPOINT_DIR"] == "gs://data/out/checkpoints/"
    assert environment["AIP_TENSORBOARD_LOG_DIR"] == "gs://data/out/logs/"
    assert "HOME" not in environment


async def test_references_to_variables_are_replaced(service: Service) -> None:
    env = {"A": "1", "B": "$(A) $(C) $$(A) $$", "C": "2"}
    ended = await service.run(python(ENVIRONMENT, env=env))
    assert service.environment(ended.name)["B"] == "1 $(C) $(A) $"


async def test_buckets_are_folders_below_gcs(service: Service) -> None:
    (service.folder / "data").mkdir()
    ended = await service.run(shell("echo hello > /gcs/data/file"))
    assert state(ended) == "SUCCEEDED"
    assert (service.folder / "data" / "file").read_text() == "hello\n"


async def test_a_failure_tells_what_the_replica_wrote(service: Service) -> None:
    ended = await service.run(shell("sleep 100"), shell("echo bad luck >&2; exit 7"))
    assert (state(ended), ended.error.code) == ("FAILED", 3)
    assert ended.error.message == (
        "The replica workerpool1-0 exited with a non-zero status of 7."
        " Termination reason: Error. \nbad luck\n"
    )


async def test_a_replica_that_a_signal_ends_exits_with_128_and_more(service: Service) -> None:
    ended = await service.run(shell("kill -9 $$$$"))
    assert "non-zero status of 137" in ended.error.message


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((), "no Docker Engine answers on this machine"),
        (("no-such-program",), "has no no-such-program itself"),
    ],
)
async def test_what_cannot_run_here_says_why(
    service: Service, command: tuple[str, ...], message: str
) -> None:
    ended = await service.run(pool(*command))
    assert state(ended) == "FAILED"
    assert message in ended.error.message


async def test_a_job_ends_at_its_time_limit(service: Service) -> None:
    ended = await service.run(shell("sleep 100"), spec={"scheduling": {"timeout": "0.1s"}})
    assert state(ended) == "CANCELLED"


async def test_cancelling_asks_with_sigterm_first(service: Service) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; sleep 100 & wait"
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job(shell(script)))
    await wrote(service.log(made.name), "up\n")
    await service.client.cancel_custom_job(name=made.name)
    assert state(await service.ended(made.name)) == "CANCELLED"
    assert service.log(made.name).read_text() == "up\nbye\n"


async def test_what_is_cancelled_before_it_starts_never_runs(service: Service) -> None:
    service.faults.plan = Plan(hold=True)
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job())
    await service.client.cancel_custom_job(name=made.name)
    assert state(await service.ended(made.name)) == "CANCELLED"
    assert not service.log(made.name).exists()


async def test_what_has_ended_is_not_cancelled(service: Service) -> None:
    ended = await service.run(shell("true"))
    with pytest.raises(exceptions.FailedPrecondition):
        await service.client.cancel_custom_job(name=ended.name)


async def test_only_what_has_ended_is_deleted(service: Service) -> None:
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job(shell("sleep 100")))
    with pytest.raises(exceptions.FailedPrecondition):
        await service.client.delete_custom_job(name=made.name)
    await service.client.cancel_custom_job(name=made.name)
    await service.ended(made.name)
    await service.client.delete_custom_job(name=made.name)
    with pytest.raises(exceptions.NotFound):
        await service.client.get_custom_job(name=made.name)


async def test_what_a_replica_left_behind_ends_with_it(service: Service) -> None:
    script = "sleep 1000 & echo $!"
    ended = await service.run(shell(script))
    assert state(ended) == "SUCCEEDED"
    await gone(int(text_of(service.log(ended.name))))


async def test_what_ignores_sigterm_is_killed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vertex_replicas, "_GRACE_SECONDS", 0.05)
    script = "trap '' TERM; echo up; while true; do sleep 0.02; done"
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job(shell(script)))
    await wrote(service.log(made.name), "up\n")
    await service.client.cancel_custom_job(name=made.name)
    assert state(await service.ended(made.name)) == "CANCELLED"


async def test_nothing_runs_on_when_the_service_ends(service: Service) -> None:
    script = "sleep 1000 & echo $! $$$$; wait"
    made = await service.client.create_custom_job(parent=PARENT, custom_job=job(shell(script)))
    log = service.log(made.name)
    await wrote(log, "\n")
    pids = [int(word) for word in text_of(log).split()]
    await service.close()
    for pid in pids:
        await gone(pid)


async def test_lists_are_filtered_and_come_in_pages_the_newest_first(service: Service) -> None:
    service.faults.plan = Plan(hold=True)
    names = []
    for index in range(5):
        labels = {"team": "a" if index % 2 == 0 else "b", "n": str(index)}
        made = await service.client.create_custom_job(parent=PARENT, custom_job=job(labels=labels))
        names.append(made.name)

    async def listed(wanted: str, parent: str = PARENT) -> list[str]:
        request = {"parent": parent, "filter": wanted, "page_size": 2}
        pages = await service.client.list_custom_jobs(request=request)
        return [job.name async for job in pages]

    assert await listed("") == names[::-1]
    assert await listed('labels.team="a"') == [names[4], names[2], names[0]]
    assert await listed("labels.team=a AND labels.n=2") == [names[2]]
    assert await listed('state="JOB_STATE_QUEUED" AND labels.team="b"') == [names[3], names[1]]
    assert await listed('state="JOB_STATE_RUNNING"') == []
    assert await listed("", parent="projects/proj/locations/europe-west4") == []
    with pytest.raises(exceptions.InvalidArgument):
        await listed("nonsense")


REFUSED = [
    (job(display_name=""), "display_name"),
    (job(display_name="n" * 129), "display_name"),
    (job(labels={"Team": "a"}), "label"),
    (job(labels={"team": "A b"}), "label"),
    (job(labels={f"l{index}": "" for index in range(65)}), "64 labels"),
    (vertex.CustomJob(display_name="n"), "worker_pool_specs"),
    (job(*[shell("true")] * 5), "worker_pool_specs"),
    (job(shell("true", replicas=2)), "first worker pool must be 1"),
    (job(shell("true"), shell("true", replicas=0)), r"\[1\]\.replica_count"),
    (job(shell("true", machine_type="n1-standard-3")), "n1-standard-3.*not supported"),
    (job(shell("true", accelerator_count=1)), "go together"),
    (job(shell("true", accelerator_type="NVIDIA_L4")), "go together"),
    (job(shell("true", accelerator_type=99, accelerator_count=1)), "accelerator_type is unknown"),
    (job(shell("true", env={"a-b": "1"})), "C identifier"),
    (job(vertex.WorkerPoolSpec(replica_count=1)), "image_uri"),
    (job(spec={"tensorboard": "projects/p/locations/l/tensorboards/1"}), "tensorboard needs"),
    (job(spec={"base_output_directory": {"output_uri_prefix": "/tmp"}}), "Cloud Storage"),
    (job(spec={"scheduling": {"strategy": 99}}), "strategy"),
]


@pytest.mark.parametrize(("refused", "message"), REFUSED)
async def test_what_the_service_refuses(
    service: Service, refused: vertex.CustomJob, message: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match=message):
        await service.client.create_custom_job(parent=PARENT, custom_job=refused)


async def test_boot_disks_have_their_limits(service: Service) -> None:
    small = shell("true")
    small.disk_spec = vertex.DiskSpec(boot_disk_size_gb=99)
    with pytest.raises(exceptions.InvalidArgument, match="boot_disk_size_gb"):
        await service.client.create_custom_job(parent=PARENT, custom_job=job(small))


@pytest.mark.parametrize(
    ("parent", "error"),
    [
        ("projects/proj/locations/asia-east1", exceptions.InvalidArgument),
        ("projects/proj", exceptions.InvalidArgument),
        ("projects/other/locations/us-central1", exceptions.PermissionDenied),
    ],
)
async def test_other_places_are_not_served(
    service: Service, parent: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await service.client.create_custom_job(parent=parent, custom_job=job())


@dataclass
class Engine:
    """Loses every container; its service's events are refused."""

    told: list[str]

    async def start(self, container: Container) -> Running:
        raise OSError(f"{container.image} is gone")

    async def emit(self, body: str) -> None:
        self.told.append(body)
        raise Unavailable("no topic")

    def jobs(self, folder: Path) -> Jobs:
        return Jobs("proj", self, {}, folder, self.emit, Faults())


async def test_what_the_engine_loses_is_an_internal_error(tmp_path: Path) -> None:
    jobs = (engine := Engine([])).jobs(tmp_path)
    made = jobs.create("1", "us-central1", job())
    async with asyncio.timeout(SECONDS):
        while True:
            if state(made) in ENDED:
                break
            await asyncio.sleep(0)
    await jobs.close()
    assert (state(made), made.error.code) == ("FAILED", 13)
    assert "registry.example/train is gone" in made.error.message
    assert len(engine.told) == 3  # each was lost, and none kept the next from being told


async def test_what_is_cancelled_at_once_never_starts(tmp_path: Path) -> None:
    jobs = Engine([]).jobs(tmp_path)
    made = jobs.create("1", "us-central1", job())
    jobs.cancel(made.name.rpartition("/")[2])
    await jobs.close()
    assert state(made) == "CANCELLED"
    assert made.error.message == "CANCELED"


async def wrote(log: Path, text: str) -> None:
    """Returns when the end of the log is that."""
    async with asyncio.timeout(SECONDS):
        while True:
            if text_of(log).endswith(text):
                return
            await asyncio.sleep(0.02)


def text_of(log: Path) -> str:
    return log.read_text() if log.exists() else ""


async def gone(pid: int) -> None:
    """Returns when no process of that number runs."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    return
            except psutil.NoSuchProcess:
                return
            await asyncio.sleep(0.02)
