"""The replicas of a custom job: what each is told, and how they end together."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from google.cloud import aiplatform_v1 as vertex

from xmcloud.local.processes import LOOPBACK, free_ports
from xmcloud.local.standins.containers import Container, Runner, Running

_GRACE_SECONDS = 10.0
_TAIL = 2000
_REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")


class Failed(Exception):
    """What the error of the job says: a code of google.rpc.Code, and a text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True)
class Replica:
    """One of the equal machines of a worker pool."""

    pool: int
    index: int

    @property
    def name(self) -> str:
        return f"workerpool{self.pool}-{self.index}"

    @property
    def primary(self) -> bool:
        return (self.pool, self.index) == (0, 0)


@dataclass(frozen=True)
class Place:
    """Where a job's replicas find what is shared, and write what they print."""

    buckets: Mapping[str, Path]
    logs: Path


class Replicas:
    """Started together; they end as the service lets them."""

    def __init__(self, running: Mapping[Replica, Running], place: Place) -> None:
        self._running = running
        self._place = place

    @classmethod
    async def start(cls, job: vertex.CustomJob, runner: Runner, place: Place) -> "Replicas":
        """Raises `CannotRun`; none is left running then."""
        place.logs.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as undo:
            running: dict[Replica, Running] = {}
            for replica, container in containers(job, place).items():
                running[replica] = await runner.start(container)
                undo.push_async_callback(running[replica].stop, 0)
            undo.pop_all()
        return cls(running, place)

    async def succeeded(self) -> None:
        """Returns when the primary replica succeeded. Raises `Failed` when one fails."""
        ends = {asyncio.create_task(run.ended()): replica for replica, run in self._running.items()}
        try:
            pending = set(ends)
            while True:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if code := task.result():
                        raise Failed(3, self._exited(ends[task], code))
                if any(ends[task].primary for task in done):
                    return
        finally:
            for task in ends:
                task.cancel()

    async def stop(self) -> None:
        await asyncio.gather(*(run.stop(_GRACE_SECONDS) for run in self._running.values()))

    def _exited(self, replica: Replica, code: int) -> str:
        written = log_of(self._place, replica).read_text(errors="replace")[-_TAIL:]
        return (
            f"The replica {replica.name} exited with a non-zero status of {code}."
            f" Termination reason: Error. \n{written}"
        )


def containers(job: vertex.CustomJob, place: Place) -> dict[Replica, Container]:
    """What each replica runs: the service's variables, and $(NAME) replaced by the value."""
    pools = job.job_spec.worker_pool_specs
    replicas = [Replica(p, i) for p, pool in enumerate(pools) for i in range(pool.replica_count)]
    addresses = [f"{LOOPBACK}:{port}" for port in free_ports(len(replicas))]
    cluster: dict[str, list[str]] = {}
    for replica, address in zip(replicas, addresses, strict=True):
        cluster.setdefault(f"workerpool{replica.pool}", []).append(address)
    return {
        replica: _container(job, replica, pools[replica.pool].container_spec, cluster, place)
        for replica in replicas
    }


def log_of(place: Place, replica: Replica) -> Path:
    return place.logs / f"{replica.name}.log"


def _container(
    job: vertex.CustomJob,
    replica: Replica,
    spec: vertex.ContainerSpec,
    cluster: Mapping[str, Sequence[str]],
    place: Place,
) -> Container:
    environment = _service_environment(job, replica, cluster)
    for variable in spec.env:
        environment[variable.name] = expanded(variable.value, environment)
    return Container(
        name=f"vertex-{job.name.rpartition('/')[2]}-{replica.name}",
        image=spec.image_uri,
        command=tuple(expanded(word, environment) for word in spec.command),
        args=tuple(expanded(word, environment) for word in spec.args),
        environment=environment,
        folders={f"/gcs/{bucket}": folder for bucket, folder in place.buckets.items()},
        log=log_of(place, replica),
    )


def _service_environment(
    job: vertex.CustomJob, replica: Replica, cluster: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    _, project, *_, id = job.name.split("/")
    task = {"type": f"workerpool{replica.pool}", "index": replica.index}
    environment = {
        "CLOUD_ML_PROJECT_ID": project,
        "CLOUD_ML_JOB_ID": id,
        "CLUSTER_SPEC": json.dumps({"cluster": cluster, "environment": "cloud", "task": task}),
    }
    if output := job.job_spec.base_output_directory.output_uri_prefix.rstrip("/"):
        environment["AIP_MODEL_DIR"] = f"{output}/model/"
        environment["AIP_CHECKPOINT_DIR"] = f"{output}/checkpoints/"
        environment["AIP_TENSORBOARD_LOG_DIR"] = f"{output}/logs/"
    return environment


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """As Kubernetes does, on which the service runs: $(NAME) is a variable that there is, $$ a
    dollar sign."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        return "$" if name is None else environment.get(name, found.group())

    return _REFERENCE.sub(value, text)
