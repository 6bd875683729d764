from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from xmcloud import xm, xm_local
from xmcloud.core import models
from xmcloud.core.errors import InvalidInput
from xmcloud.core.protocol import NewJob, NewUnit
from xmcloud.core.specs import (
    Argument,
    Command,
    ContainerOptions,
    Image,
    KubernetesOptions,
    Overflow,
    Tensorboard,
    VertexOptions,
)
from xmcloud.xm_cloud.executors import Local, PlacedExecutor, WorkerPool
from xmcloud.xm_cloud.packaging.package import Packaged
from xmcloud.xm_cloud.requests import jobs_of, new_unit
from xmcloud.xm_cloud.unsupported import Unsupported

COMMAND = Command(command=("/bin/true",), directory="/")
IMAGE = Image(image="registry.example.org/train@sha256:0")
HERE = "http://127.0.0.1:8000"
ROLE = xm.WorkUnitRole()


def packaged(spec: xm.ExecutorSpec, **layers: Any) -> Packaged:
    process = isinstance(spec, xm_local.LocalSpec | xm_local.WorkerPoolSpec)
    return Packaged("true", executable=COMMAND if process else IMAGE, executor_spec=spec, **layers)


def on(executor: xm.Executor, **options: Any) -> xm.Job:
    return xm.Job(packaged(executor.Spec()), executor, **options)


def unit(
    job: xm.JobType, args: Any = None, role: xm.ExperimentUnitRole = ROLE, url: str = HERE
) -> NewUnit:
    return new_unit(jobs_of(job, args), role, url)


def sent(executor: xm.Executor, role: xm.ExperimentUnitRole = ROLE) -> NewJob:
    [made] = unit(on(executor), role=role).jobs
    return made


def test_a_local_job() -> None:
    [made] = unit(on(Local(), args={"lr": 0.1})).jobs
    assert (made.name, made.queue, made.spec.pool) == ("true", "default", "local")
    assert made.spec.executable == COMMAND
    assert made.spec.arguments == (Argument(name="lr", value=0.1),)
    assert made.spec.environment == {"PYTHONUNBUFFERED": "1"}
    assert (made.spec.platform, made.spec.overflow) == (None, None)


def test_a_job_for_workers() -> None:
    requirements = xm.JobRequirements(cpu=2, ram=4 * xm.GiB, disk=xm.GiB, a100_80gib=2)
    made = sent(WorkerPool(requirements, pool="lab", queue="high"))
    assert (made.queue, made.spec.pool) == ("high", "lab")
    assert made.spec.resources == {
        "cpu": 2, "memory": 4 * 2**30, "disk": 2**30, "a100-80gib": 2,
    }  # fmt: skip


def test_any_pool_and_no_requirements_by_default() -> None:
    made = sent(WorkerPool())
    assert (made.spec.pool, made.spec.resources) == ("", {})


def test_a_gpu_of_this_machine() -> None:
    assert sent(Local(xm.JobRequirements(local_gpu=2))).spec.resources == {"gpu": 2}


def test_a_job_on_vertex() -> None:
    made = sent(xm_local.Vertex(xm.JobRequirements(t4=2, location="us-central1")))
    assert (made.queue, made.spec.pool, made.spec.resources) == ("default", "vertex", {"t4": 2})
    assert made.spec.platform == VertexOptions(location="us-central1")


def test_every_option_of_vertex() -> None:
    executor = xm_local.Vertex(
        xm.JobRequirements(cpu=4, replicas=1),
        tensorboard=xm_local.TensorboardCapability("tb", "bucket/logs"),
        service_account="me@p",
        network="n",
        spot=True,
        restart=True,
        labels={"team": "vision"},
        queue="slow",
    )
    made = sent(executor)
    assert made.queue == "slow"
    assert made.spec.platform == VertexOptions(
        service_account="me@p",
        network="n",
        spot=True,
        restart=True,
        labels={"team": "vision"},
        tensorboard=Tensorboard(name="tb", output="gs://bucket/logs"),
    )


def test_caip_is_another_name_of_vertex() -> None:
    assert xm_local.Caip is xm_local.Vertex
    assert xm_local.Caip.Spec(push_image_tag="r/i:t") == xm_local.VertexSpec("r/i:t")


def test_a_tensorboard_without_a_folder_has_that_of_the_control_plane() -> None:
    board = xm_local.TensorboardCapability("tb")
    platform = sent(xm_local.Vertex(tensorboard=board)).spec.platform
    assert isinstance(platform, VertexOptions)
    assert platform.tensorboard == Tensorboard(name="tb", output="")


def test_a_job_on_kubernetes() -> None:
    wanted = xm.JobRequirements(tpu_v5e="4x4", location="us-central1-a")
    made = sent(xm_local.Kubernetes(wanted, labels={"a": "b"}, namespace="team"))
    assert (made.spec.pool, made.spec.resources) == ("kubernetes", {"tpu-v5e": 16})
    assert made.spec.topology == "4x4"
    assert made.spec.platform == KubernetesOptions(
        namespace="team",
        labels={"a": "b"},
        node_selector={"topology.kubernetes.io/zone": "us-central1-a"},
    )


def test_the_topology_of_a_capability() -> None:
    tpu = xm_local.TpuCapability(topology="2x4")
    wanted = xm.JobRequirements(tpu_v5e=8, location="europe-west4")
    made = sent(xm_local.Kubernetes(wanted, tpu_capability=tpu))
    assert made.spec.topology == "2x4"
    assert isinstance(made.spec.platform, KubernetesOptions)
    assert made.spec.platform.node_selector == {"topology.kubernetes.io/region": "europe-west4"}
    other = xm_local.Kubernetes(xm.JobRequirements(tpu_v5e="4x2"), tpu_capability=tpu)
    with pytest.raises(InvalidInput, match=r"tpu_capability.topology is '2x4'. .*'4x2'"):
        sent(other)
    old = xm_local.Kubernetes(
        xm.JobRequirements(tpu_v5e=4), tpu_capability=xm_local.TpuCapability("2.1")
    )
    with pytest.warns(UserWarning, match="tpu_runtime_version is '2.1'; it has no effect on Kub"):
        sent(old)


def test_elsewhere_than_on_gke_a_gpu_is_of_any_type() -> None:
    made = sent(xm_local.Kubernetes(xm.JobRequirements(t4=2, cpu=1), cloud_provider="OTHER"))
    assert made.spec.resources == {"cpu": 1, "gpu": 2}
    with pytest.raises(InvalidInput, match="cloud_provider is 'OTHER'"):
        sent(xm_local.Kubernetes(xm.JobRequirements(tpu_v5e=4), cloud_provider="OTHER"))


def test_a_twisted_topology_is_refused() -> None:
    with pytest.raises(InvalidInput, match="topology is '4x4x4_twisted'"):
        sent(xm_local.Kubernetes(xm.JobRequirements(tpu_v4="4x4x4_twisted")))


@pytest.mark.parametrize("after", [90.0, timedelta(seconds=90)])
def test_a_job_that_overflows(after: Any) -> None:
    made = sent(xm_local.Overflow(xm.JobRequirements(t4=1), pool="lab", after=after))
    assert (made.spec.pool, made.spec.overflow) == (
        "lab",
        Overflow(target="vertex", after_seconds=90),
    )
    assert made.spec.platform == VertexOptions()


def test_an_overflow_to_kubernetes() -> None:
    made = sent(xm_local.Overflow(target="kubernetes", spot=True))
    assert (made.spec.pool, made.spec.platform) == ("local", KubernetesOptions(spot=True))
    with pytest.raises(InvalidInput, match="target is 'moon'"):
        sent(xm_local.Overflow(target="moon"))


@pytest.mark.parametrize("kind", [xm_local.Vertex, xm_local.Kubernetes, xm_local.Overflow])
@pytest.mark.parametrize(
    ("tier", "spot"),
    [(xm.ServiceTier.PROD, False), (xm.ServiceTier.BATCH, True), (xm.ServiceTier.FREEBIE, True)],
)
def test_a_lower_tier_means_spot_machines(kind: Any, tier: xm.ServiceTier, spot: bool) -> None:
    wanted = xm.JobRequirements(service_tier=tier)
    for executor, expected in ((kind(wanted), spot), (kind(wanted, spot=not spot), not spot)):
        platform = sent(executor).spec.platform
        assert platform is not None
        assert platform.spot is expected


@pytest.mark.parametrize(
    ("importance", "queue"),
    [(xm.Importance.HIGH, "high"), (xm.Importance.NORMAL, "default"), (xm.Importance.LOW, "low")],
)
def test_the_importance_of_a_unit_chooses_its_queue(importance: xm.Importance, queue: str) -> None:
    role = xm.WorkUnitRole(importance=importance)
    for executor in (Local(), WorkerPool(), xm_local.Vertex(), xm_local.Kubernetes()):
        assert sent(executor, role).queue == queue
    assert sent(WorkerPool(queue="mine"), role).queue == "mine"


def test_an_auxiliary_unit() -> None:
    role = xm.AuxiliaryUnitRole(importance=xm.Importance.LOW, termination_delay_secs=60)
    made = unit(on(WorkerPool()), role=role)
    assert made.auxiliary == models.Auxiliary(
        importance=models.Importance.LOW, termination_delay_seconds=60
    )
    assert made.jobs[0].queue == "low"
    assert unit(on(WorkerPool())).auxiliary is None


def test_only_what_has_no_effect_warns() -> None:
    with pytest.warns(UserWarning, match="location is 'lab'; it has no effect on a worker"):
        sent(WorkerPool(xm.JobRequirements(location="lab")))
    with pytest.warns(UserWarning, match=r"service_tier is .*BATCH; it has no effect on a worker"):
        sent(Local(xm.JobRequirements(service_tier=xm.ServiceTier.BATCH)))
    with pytest.warns(UserWarning, match=r"tags is \['a'\]; it has no effect on a unit"):
        sent(WorkerPool(), xm.WorkUnitRole(tags=["a"]))


def test_the_arguments_of_add_come_last() -> None:
    base = packaged(
        Local.Spec(), args=xm.merge_args({"a": 1, "b": 1, "c": 1}), env_vars={"A": "1", "B": "1"}
    )
    overrides = {"args": {"c": 3}, "env_vars": {"B": 2}}
    [made] = unit(xm.Job(base, Local(), args={"b": 2, "c": 2}), overrides).jobs
    assert [(a.name, a.value) for a in made.spec.arguments] == [("a", 1), ("b", 2), ("c", 3)]
    assert made.spec.environment == {"PYTHONUNBUFFERED": "1", "A": "1", "B": "2"}


def test_a_group_is_one_unit() -> None:
    inner = xm.JobGroup(actor=on(WorkerPool()), learner=on(WorkerPool(), name="brain"))
    args = {"outer": {"actor": {"args": {"a": 1}}}, "x": {"env_vars": {"V": 2}}}
    made = unit(xm.JobGroup(outer=inner, x=on(WorkerPool())), args)
    assert [job.name for job in made.jobs] == ["outer_actor", "brain", "x"]
    assert made.jobs[0].spec.arguments == (Argument(name="a", value=1),)
    assert made.jobs[2].spec.environment["V"] == "2"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Local(), WorkerPool(), r"executor of b is 'WorkerPool\(\.\.\)'.*'Local\(\.\.\)', as th"),
        (WorkerPool(pool="a"), WorkerPool(pool="b"), "pool of b is 'b'.*'a', as that of a"),
        (xm_local.Overflow(after=1), xm_local.Overflow(after=2), "overflow of b is"),
        (xm_local.Vertex(), xm_local.Vertex(spot=True), "spot of b is True"),
        (WorkerPool(queue="a"), WorkerPool(queue="b"), r"queue is \['a', 'b'\]"),
    ],
)
def test_the_executors_of_a_group_agree(first: Any, second: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        unit(xm.JobGroup(a=on(first), b=on(second)))


def test_a_queue_that_one_job_names_is_that_of_the_group() -> None:
    made = unit(xm.JobGroup(a=on(WorkerPool()), b=on(WorkerPool(queue="mine"))))
    assert [job.queue for job in made.jobs] == ["mine", "mine"]


def test_constraints_are_refused() -> None:
    inner = xm.JobGroup(constraints=[xm.Constraint()], a=on(WorkerPool()))
    with pytest.raises(Unsupported, match="constraints"):
        unit(xm.JobGroup(inner=inner))


def test_a_group_without_jobs_is_refused() -> None:
    with pytest.raises(InvalidInput, match="group with a job"):
        unit(xm.JobGroup())


def test_a_group_has_a_limit() -> None:
    with pytest.raises(InvalidInput, match="jobs is 101"):
        unit(on(WorkerPool(xm.JobRequirements(replicas=101))))


@pytest.mark.parametrize("kind", [Local, WorkerPool, xm_local.Overflow])
def test_replicas_on_workers_are_jobs_of_a_group(kind: Any) -> None:
    made = unit(on(kind(xm.JobRequirements(replicas=3)), name="w")).jobs
    assert [job.name for job in made] == ["w_0", "w_1", "w_2"]
    assert [job.spec.environment["XMCLOUD_REPLICA"] for job in made] == ["0", "1", "2"]
    assert {job.spec.environment["XMCLOUD_REPLICAS"] for job in made} == {"3"}
    assert {job.spec.replicas for job in made} == {1}


def test_replicas_on_a_platform_are_its_own() -> None:
    made = sent(xm_local.Kubernetes(xm.JobRequirements(a100="4x2")))
    assert (made.name, made.spec.replicas, made.spec.resources) == ("true", 2, {"a100": 4})
    chief = on(xm_local.Vertex(), name="chief")
    many = on(xm_local.Vertex(xm.JobRequirements(t4=1, replicas=5)))
    assert [j.spec.replicas for j in unit(xm.JobGroup(chief=chief, w=many)).jobs] == [1, 5]


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (xm.JobRequirements(a100=3), "resources.a100 is 3"),
        (xm.JobRequirements(tpu_v3=4), "resources.tpu-v3 is 4"),
        (xm.JobRequirements(local_gpu=1), "resources is 'gpu'"),
        (xm.JobRequirements(replicas=2), "replicas is 2"),
    ],
)
def test_what_vertex_does_not_have_is_refused_at_once(
    requirements: xm.JobRequirements, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        sent(xm_local.Vertex(requirements))


@pytest.mark.parametrize(
    ("accelerator", "resources"),
    [({"T4": 1}, {"t4": 1}), ({"TPU_V2": 8}, {"tpu-v2": 8}), ({"a100": 16}, {"a100": 16})],
)
def test_what_vertex_has(accelerator: Any, resources: dict[str, float]) -> None:
    requirements = xm.JobRequirements(accelerator, cpu=1, ram=4 * xm.GiB)
    spec = sent(xm_local.Caip(requirements)).spec
    assert spec.resources == {**resources, "cpu": 1, "memory": 4 * 2**30}
    assert spec.topology == ""


def test_an_overflow_to_vertex_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match=r"resources\.a100 is 3"):
        sent(xm_local.Overflow(xm.JobRequirements(a100=3)))


def test_a_group_on_vertex_has_at_most_four_jobs_and_one_tensorboard() -> None:
    job = on(xm_local.Vertex())
    with pytest.raises(InvalidInput, match="jobs is 5"):
        unit(xm.JobGroup(a=job, b=job, c=job, d=job, e=job))
    one, other = (
        on(xm_local.Vertex(tensorboard=xm_local.TensorboardCapability(name, "gs://b")))
        for name in ("one", "other")
    )
    with pytest.raises(InvalidInput, match="one for all jobs"):
        unit(xm.JobGroup(a=one, b=other))
    assert len(unit(xm.JobGroup(a=one, b=job, c=one)).jobs) == 3


def container(options: xm_local.DockerOptions | None) -> ContainerOptions:
    executable = Packaged("i", executable=IMAGE, executor_spec=Local.Spec())
    spec = unit(xm.Job(executable, Local(docker_options=options))).jobs[0].spec
    assert isinstance(spec.executable, Image)
    return spec.executable.options


def test_docker_options_reach_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = xm_local.DockerOptions(
        ports={80: 8080, "81/tcp": 8081}, volumes={"/data": "/mnt"}, interactive=True
    )
    assert container(options) == ContainerOptions(
        ports={80: 8080, 81: 8081}, volumes={"/data": "/mnt"}, interactive=True
    )
    assert container(None) == ContainerOptions()
    (tmp_path / "gcs").mkdir()
    mounted = {str(tmp_path / "gcs"): "/gcs"}
    assert container(None) == ContainerOptions(volumes=mounted)
    both = xm_local.DockerOptions(volumes={"/data": "/mnt"})
    assert container(both).volumes == {**mounted, "/data": "/mnt"}
    other = {"/other": "/gcs"}
    assert container(xm_local.DockerOptions(volumes=other)).volumes == other
    assert container(xm_local.DockerOptions(mount_gcs_path=False)) == ContainerOptions()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"volumes": {"data": "/mnt"}}, r"'data'. .*absolute path, such as os.path.abspath"),
        ({"volumes": {"/data": "mnt"}}, "'mnt'. It must be an absolute path"),
        ({"ports": {"53/udp": 53}}, "ports is '53/udp'"),
        ({"ports": {80: 70000}}, "ports is 70000"),
    ],
)
def test_docker_options_that_cannot_be_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        container(xm_local.DockerOptions(**options))


def test_docker_options_of_a_process_warn() -> None:
    executor = Local(docker_options=xm_local.DockerOptions(ports={80: 8080}))
    with pytest.warns(UserWarning, match="docker_options is .* no effect on what runs as a proc"):
        sent(executor)


@pytest.mark.parametrize("name", ["server", "workerpool1", "x_1_server"])
def test_late_bindings_pass_through(name: str) -> None:
    text = f"--to=%objectname({name})%"
    client = on(WorkerPool(), args=[text], env_vars={"TO": text})
    made = unit(xm.JobGroup(client=client, server=on(WorkerPool()))).jobs[0]
    assert (made.spec.arguments[0].value, made.spec.environment["TO"]) == (text, text)


def test_a_late_binding_names_a_job_of_the_unit() -> None:
    client = on(WorkerPool(), args={"to": xm.get_workerpool_address("sevrer")})
    with pytest.raises(InvalidInput, match=r"of client is 'sevrer'. .*: client, server"):
        unit(xm.JobGroup(client=client, server=on(WorkerPool())))


def test_an_executable_must_be_packaged_for_its_executor() -> None:
    with pytest.raises(InvalidInput, match=r"WorkerPool\.Spec\(\)"):
        unit(xm.Job(packaged(Local.Spec()), WorkerPool()))
    with pytest.raises(InvalidInput, match=r"experiment\.package"):
        unit(xm.Job(xm.Executable("raw"), Local()))
    with pytest.raises(Unsupported, match="WorkerPool"):
        unit(xm.Job(packaged(Local.Spec()), xm.Executor()))


def test_what_is_no_job_is_refused() -> None:
    with pytest.raises(TypeError, match=r"add an xm\.Job"):
        jobs_of("train", None)  # type: ignore[arg-type]


def test_names_of_pools_queues_labels_and_jobs_are_checked() -> None:
    named: list[tuple[PlacedExecutor, str]] = [
        (WorkerPool(pool="My Pool"), "n"),
        (WorkerPool(queue="UPPER"), "n"),
        (WorkerPool(), "a\nb"),
        (xm_local.Vertex(labels={"Team": "x"}), "n"),
        (xm_local.Vertex(labels={"xmcloud-unit": "x"}), "n"),
        (xm_local.Overflow(after=-1), "n"),
    ]
    for executor, name in named:
        with pytest.raises(InvalidInput):
            unit(on(executor, name=name))


@pytest.mark.parametrize("url", ["https://api.example.org", "http://10.0.0.7:8000"])
def test_a_job_for_this_machine_is_not_sent_to_another(url: str) -> None:
    with pytest.raises(Unsupported, match=r"Local\(\.\.\), but .* on another machine"):
        unit(on(Local()), url=url)
    assert unit(on(WorkerPool()), url=url).jobs
