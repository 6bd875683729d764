"""Container jobs on a worker in a process of its own, with a real engine."""

import json
import socket
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from docker.errors import ImageNotFound

from tests.functions.real_workers import Plane, new_job, opened_plane
from tests.support.engine import DockerEngine
from xmcloud.core.models import Job, JobState, Outcome, ReasonCode
from xmcloud.core.specs import Argument, ContainerOptions, Image, Limits
from xmcloud.worker.ports import FreePorts

pytestmark = pytest.mark.docker

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
STUBBORN = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
GRACEFUL = "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def plane(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With one worker for the tests that do not end theirs."""
    with opened_plane(tmp_path_factory.mktemp("plane")) as plane:
        environment = {**docker_engine.environment, "OF_THE_WORKER": "secret"}
        gcs = plane.folder / "gcs" / "bucket"
        gcs.mkdir(parents=True)
        environment["XMCLOUD_WORKER_GCS_ROOT"] = str(gcs.parent)
        with plane.worker("shared", environment, slots=4):
            yield plane


def python(engine: DockerEngine, code: str, **options: Any) -> Image:
    command = ("python3", "-c", code)
    return Image(image=engine.base_image, command=command, options=ContainerOptions(**options))


def shell(engine: DockerEngine, script: str, **options: Any) -> Image:
    command = ("bash", "-c", script)
    return Image(image=engine.base_image, command=command, options=ContainerOptions(**options))


def run(plane: Plane, executable: Image, **spec: Any) -> Job:
    (job,) = plane.launch(new_job("train", executable, **spec))
    return plane.over(job)


def build(engine: DockerEngine, tag: str, *lines: str) -> None:
    dockerfile = "\n".join([f"FROM {engine.base_image}", *lines]).encode()
    engine.client().images.build(
        fileobj=BytesIO(dockerfile), tag=tag, network_mode="host", pull=False, rm=True
    )


def containers(engine: DockerEngine) -> list[str | None]:
    """The names of those that a worker started."""
    found = engine.client().containers.list(all=True, filters={"label": "xmcloud.job"})
    return [container.name for container in found]


def test_arguments_and_environment_are_exact(plane: Plane, docker_engine: DockerEngine) -> None:
    values = ["", "two words", "new\nline", "'\"`", "$HOME $(id) *", "ü→🙂", "\\"]
    job = run(
        plane,
        python(docker_engine, SHOW),
        arguments=tuple(Argument(value=value) for value in values),
        environment={"MINE": "line\nbreak"},
    )
    argv, environment = json.loads(plane.log(job))
    assert argv == values
    assert environment["MINE"] == "line\nbreak"
    assert environment["XMCLOUD_JOB_ID"] == job.id
    assert environment["XMCLOUD_ATTEMPT"] == "1"
    assert "OF_THE_WORKER" not in environment
    assert "XMCLOUD_TOKEN" not in environment


def test_the_image_keeps_its_entrypoint_and_a_shell_reads_what_is_for_it(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    build(docker_engine, "says", "ENV WHO=you", 'ENTRYPOINT ["echo", "hello to"]', 'CMD ["all"]')
    plain = run(plane, Image(image="says"))
    told = run(plane, Image(image="says"), arguments=(Argument(value="$WHO"),))
    read = run(plane, Image(image="says"), arguments=(Argument(value="$WHO", shell=True),))
    logs = [plane.log(job) for job in (plain, told, read)]
    assert logs == ["hello to all\n", "hello to $WHO\n", "hello to you\n"]


def test_results_come_back_and_nothing_is_left(plane: Plane, docker_engine: DockerEngine) -> None:
    write = "import json, os; json.dump({'x': 1.5}, open(os.environ['XMCLOUD_RESULTS'], 'w'))"
    job = run(plane, python(docker_engine, write))
    assert (job.state, job.results) == (JobState.COMPLETED, {"x": 1.5})
    assert containers(docker_engine) == []


def test_both_streams_and_the_exit_code_come_back(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    job = run(plane, shell(docker_engine, "echo out; echo err >&2; exit 7"))
    assert (job.state, job.reason.exit_code) == (JobState.FAILED, 7)
    assert sorted(plane.log(job).split()) == ["err", "out"]


def test_a_large_output_arrives_whole(plane: Plane, docker_engine: DockerEngine) -> None:
    job = run(plane, python(docker_engine, "print('x' * 3_000_000)"))
    size = int(plane.http.get(f"/jobs/{job.id}/log", params={"offset": 3_000_000}).json()["offset"])
    assert job.state is JobState.COMPLETED
    assert size == 3_000_000


@pytest.mark.parametrize(
    ("script", "grace", "said"), [(GRACEFUL, 30.0, "saved"), (STUBBORN, 0.3, "asked")]
)
def test_a_stop_gives_time(
    plane: Plane, docker_engine: DockerEngine, script: str, grace: float, said: str
) -> None:
    limits = Limits(grace_seconds=grace)
    (job,) = plane.launch(new_job("train", shell(docker_engine, script), limits=limits))
    plane.wrote(job, "ready")
    plane.stop(job)
    job = plane.over(job)
    assert job.state is JobState.STOPPED
    assert said in plane.log(job)
    assert containers(docker_engine) == []


def test_a_job_that_takes_too_long_is_ended(plane: Plane, docker_engine: DockerEngine) -> None:
    limits = Limits(runtime_seconds=0.1, grace_seconds=0)
    job = run(plane, shell(docker_engine, STUBBORN), limits=limits)
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.TIMED_OUT)


def test_volumes_and_storage_are_mounted(
    plane: Plane, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("from the host")
    script = "cat /data/given; echo back > /data/made; echo stored > /gcs/bucket/object"
    job = run(plane, shell(docker_engine, script, volumes={str(tmp_path): "/data"}, mount_gcs=True))
    assert plane.log(job) == "from the host"
    assert (tmp_path / "made").read_text() == "back\n"
    assert (plane.folder / "gcs" / "bucket" / "object").read_text() == "stored\n"


@pytest.mark.parametrize("folder", ["relative", "/no/such/folder"])
def test_a_volume_that_is_not_there_is_named(
    plane: Plane, docker_engine: DockerEngine, folder: str
) -> None:
    job = run(plane, shell(docker_engine, "true", volumes={folder: "/data"}))
    assert job.reason.code is ReasonCode.SETUP_FAILED
    assert folder in job.reason.message


def test_ports_are_those_of_the_host_where_the_engine_has_no_bridge(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    same = run(plane, shell(docker_engine, "true", ports={8080: 8080}))
    other = run(plane, shell(docker_engine, "true", ports={8080: 9090}))
    assert same.state is JobState.COMPLETED
    assert other.reason.code is ReasonCode.SETUP_FAILED
    assert "Port 8080 of the container" in other.reason.message


def test_memory_that_runs_out_is_told(plane: Plane, docker_engine: DockerEngine) -> None:
    greedy = python(docker_engine, "print(len(bytearray(500 << 20)))")
    job = run(plane, greedy, resources={"memory": 64 << 20})
    assert (job.state, job.reason.code) == (JobState.FAILED, ReasonCode.OUT_OF_MEMORY)
    assert "out of memory" in job.reason.message
    assert "64 MiB" in job.reason.message


def test_a_terminal_is_there_for_whoever_attaches(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    asks = "import sys; print(sys.stdin.isatty(), flush=True); print('got', input())"
    (job,) = plane.launch(new_job("train", python(docker_engine, asks, interactive=True)))
    plane.wrote(job, "True")
    container = docker_engine.client().containers.get(job.full_name)
    attached: Any = container.attach_socket(params={"stdin": 1, "stream": 1})
    attached._sock.sendall(b"a line\n")
    job = plane.over(job)
    attached._sock.close()
    attached._response.close()
    assert "got a line" in plane.log(job)


def test_an_image_is_pulled_once(plane: Plane, docker_engine: DockerEngine) -> None:
    build(docker_engine, "pulled", "RUN echo here >/came", 'ENTRYPOINT ["cat", "/came"]')
    reference = docker_engine.push("pulled", "group/pulled")
    client = docker_engine.client()
    for name in ("pulled", reference.partition("@")[0] + ":latest"):
        client.images.remove(name, force=True)
    with pytest.raises(ImageNotFound):
        client.images.get(reference)
    first, second = (run(plane, Image(image=reference)) for _ in range(2))
    assert plane.log(first).startswith(f"xmcloud: pulling {reference}\n")
    assert plane.log(first).endswith("\nhere\n")
    assert plane.log(second) == "here\n"


def test_a_pull_that_hangs_holds_up_no_stop_and_no_worker(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        opened_plane(tmp_path) as plane,
        plane.worker(environment=docker_engine.environment) as worker,
    ):
        image = Image(image=f"127.0.0.1:{silent.getsockname()[1]}/slow:image")
        (job,) = plane.launch(new_job("train", image))
        plane.wrote(job, "pulling")
        plane.stop(job)
        assert plane.over(job).state is JobState.STOPPED
        worker.process.terminate()
        assert worker.ended(10) == 0


def test_an_image_that_is_not_there_is_named(plane: Plane, docker_engine: DockerEngine) -> None:
    missing = f"{docker_engine.registry}/no/such:image"
    job = run(plane, Image(image=missing))
    assert job.reason.code is ReasonCode.SETUP_FAILED
    assert f"Cannot pull image {missing}" in job.reason.message
    assert "docker login" in job.reason.message


def test_a_program_that_the_image_lacks_is_named(plane: Plane, docker_engine: DockerEngine) -> None:
    job = run(plane, Image(image=docker_engine.base_image, command=("no-such-program",)))
    assert job.reason.code is ReasonCode.SETUP_FAILED
    assert "no-such-program" in job.reason.message
    assert containers(docker_engine) == []


def test_a_name_that_others_have_is_refused_and_one_of_ours_is_taken_back(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    (job,) = plane.launch(new_job("train", shell(docker_engine, "true"), queue=None))
    create = partial(
        docker_engine.client().containers.create, docker_engine.base_image, name=job.full_name
    )
    other = create(labels={"xmcloud.job": "another"})
    plane.enqueue(job)
    refused = plane.over(job)
    other.remove()
    create(labels={"xmcloud.job": job.id})
    plane.enqueue(job)
    job = plane.until(job, JobState.COMPLETED)
    assert refused.reason.code is ReasonCode.SETUP_FAILED
    assert f"docker rm -f {job.full_name}" in refused.reason.message
    assert containers(docker_engine) == []


def test_a_container_goes_on_when_its_worker_is_killed(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    count = "for i in {1..150}; do echo line $i; sleep 0.02; done; exit 5"
    with opened_plane(tmp_path) as plane:
        (job,) = plane.launch(new_job("train", shell(docker_engine, count)))
        with plane.worker(environment=docker_engine.environment) as worker:
            plane.wrote(job, "line 20\n")
            worker.process.kill()
            assert worker.ended(30) is not None
        with plane.worker(environment=docker_engine.environment):
            job = plane.over(job)
        assert plane.log(job) == "".join(f"line {number}\n" for number in range(1, 151))
    assert (job.state, job.reason.exit_code, job.fence) == (JobState.FAILED, 5, 1)
    assert containers(docker_engine) == []


def test_a_container_of_a_killed_worker_can_be_stopped(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    with opened_plane(tmp_path) as plane:
        (job,) = plane.launch(new_job("train", shell(docker_engine, GRACEFUL)))
        with plane.worker(environment=docker_engine.environment) as worker:
            plane.wrote(job, "ready")
            worker.process.kill()
            assert worker.ended(30) is not None
        plane.stop(job)
        with plane.worker(environment=docker_engine.environment):
            job = plane.over(job)
        assert plane.log(job) == "ready\nsaved\n"
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.STOPPED]
    assert containers(docker_engine) == []


def test_without_an_engine_a_job_says_so(tmp_path: Path) -> None:
    environment = {"XMCLOUD_WORKER_CONTAINER_HOST": f"unix://{tmp_path}/none.sock"}
    with opened_plane(tmp_path) as plane, plane.worker(environment=environment):
        job = run(plane, Image(image="any"))
    assert job.reason.code is ReasonCode.SETUP_FAILED
    assert f"No container engine answers at unix://{tmp_path}/none.sock" in job.reason.message
    assert "systemctl start docker" in job.reason.message


def test_a_container_that_somebody_removes_has_failed(
    plane: Plane, docker_engine: DockerEngine
) -> None:
    (job,) = plane.launch(new_job("train", shell(docker_engine, STUBBORN)))
    plane.wrote(job, "ready")
    docker_engine.client().containers.get(job.full_name).remove(force=True)
    job = plane.over(job)
    assert job.state is JobState.FAILED
    assert job.reason.exit_code == 137


def test_ports_are_published_on_a_bridge(docker_engine: DockerEngine, tmp_path: Path) -> None:
    network = "xmcloud-ports"
    (port,) = FreePorts().some(1)
    serve = "python3 -u -m http.server 8080"
    environment = {**docker_engine.environment, "XMCLOUD_WORKER_CONTAINER_NETWORK": network}
    with opened_plane(tmp_path) as plane, plane.worker(environment=environment):
        image = shell(docker_engine, serve, ports={8080: port})
        (job,) = plane.launch(new_job("train", image, limits=Limits(grace_seconds=0)))
        plane.wrote(job, "Serving HTTP")
        answer = httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
        plane.stop(job)
        plane.over(job)
    docker_engine.client().networks.get(network).remove()
    assert answer.status_code == httpx.codes.OK
