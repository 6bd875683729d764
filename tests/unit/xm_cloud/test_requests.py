import pytest

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Argument, Command
from xmcloud.core.protocol import NewUnit
from xmcloud.xm_cloud.executors import DockerOptions, Local, WorkerPool, resources_of
from xmcloud.xm_cloud.packaging import Packaged
from xmcloud.xm_cloud.requests import new_unit, single_job
from xmcloud.xm_cloud.unsupported import Unsupported

COMMAND = Command(command=("/bin/true",), directory="/")
HERE = "http://127.0.0.1:8000"


def unit_here(job: xm.Job) -> NewUnit:
    return new_unit(job, HERE)


def packaged(spec: xm.ExecutorSpec, **layers: object) -> Packaged:
    return Packaged("true", executable=COMMAND, executor_spec=spec, **layers)  # type: ignore[arg-type]


def job(**options: object) -> xm.Job:
    return xm.Job(packaged(Local.Spec()), Local(), **options)  # type: ignore[arg-type]


def test_a_local_job() -> None:
    [sent] = unit_here(single_job(job(args={"lr": 0.1}), None)).jobs
    assert (sent.name, sent.queue, sent.spec.pool) == ("true", "default", "local")
    assert sent.spec.executable == COMMAND
    assert sent.spec.arguments == (Argument(name="lr", value=0.1),)
    assert sent.spec.environment == {"PYTHONUNBUFFERED": "1"}


def test_a_job_for_workers() -> None:
    requirements = xm.JobRequirements(cpu=2, ram=4 * xm.GiB, disk=xm.GiB, a100_80gib=2)
    executor = WorkerPool(requirements, pool="lab", queue="high")
    sent = unit_here(single_job(xm.Job(packaged(WorkerPool.Spec()), executor), None)).jobs[0]
    assert (sent.queue, sent.spec.pool) == ("high", "lab")
    assert sent.spec.resources == {
        "cpu": 2, "memory": 4 * 2**30, "disk": 2**30, "a100-80gib": 2,
    }  # fmt: skip


def test_any_pool_and_no_requirements_by_default() -> None:
    sent = unit_here(xm.Job(packaged(WorkerPool.Spec()), WorkerPool(), "n")).jobs[0]
    assert (sent.spec.pool, sent.spec.resources) == ("", {})


def test_the_arguments_of_add_come_last() -> None:
    base = packaged(
        Local.Spec(), args=xm.merge_args({"a": 1, "b": 1, "c": 1}), env_vars={"A": "1", "B": "1"}
    )
    overrides = {"args": {"c": 3}, "env_vars": {"B": 2}}
    made = single_job(xm.Job(base, Local(), args={"b": 2, "c": 2}), overrides)
    spec = unit_here(made).jobs[0].spec
    assert [(a.name, a.value) for a in spec.arguments] == [("a", 1), ("b", 2), ("c", 3)]
    assert spec.environment == {"PYTHONUNBUFFERED": "1", "A": "1", "B": "2"}


def test_a_group_of_one_is_a_job() -> None:
    made = single_job(xm.JobGroup(trainer=job()), {"trainer": {"args": {"a": 1}}})
    assert (made.name, made.args.to_argv()) == ("trainer", ["--a=1"])


def test_a_group_of_several_is_refused() -> None:
    with pytest.raises(Unsupported, match="group of 2 jobs"):
        single_job(xm.JobGroup(one=job(), two=job()), None)


def test_an_executable_must_be_packaged_for_its_executor() -> None:
    with pytest.raises(InvalidInput, match=r"WorkerPool\.Spec\(\)"):
        unit_here(xm.Job(packaged(Local.Spec()), WorkerPool(), "n"))
    with pytest.raises(InvalidInput, match=r"experiment\.package"):
        unit_here(xm.Job(xm.Executable("raw"), Local(), "n"))
    with pytest.raises(Unsupported, match="WorkerPool"):
        unit_here(xm.Job(packaged(Local.Spec()), xm.Executor(), "n"))


def test_names_of_pools_queues_and_jobs_are_checked() -> None:
    for executor, name in (
        (WorkerPool(pool="My Pool"), "n"),
        (WorkerPool(queue="UPPER"), "n"),
        (WorkerPool(), "a\nb"),
    ):
        with pytest.raises(InvalidInput):
            unit_here(xm.Job(packaged(WorkerPool.Spec()), executor, name))


def test_several_replicas_are_refused() -> None:
    with pytest.raises(Unsupported, match="replicas is 2"):
        resources_of(xm.JobRequirements(cpu=1, replicas=2))


def test_docker_options_are_refused() -> None:
    with pytest.raises(Unsupported, match="docker_options"):
        Local(docker_options=DockerOptions(ports={80: 8080}))


@pytest.mark.parametrize("url", ["https://api.example.org", "http://10.0.0.7:8000"])
def test_a_job_for_this_machine_is_not_sent_to_another(url: str) -> None:
    with pytest.raises(Unsupported, match=r"Local\(\.\.\), but .* on another machine"):
        new_unit(xm.Job(packaged(Local.Spec()), Local(), "n"), url)
    assert new_unit(xm.Job(packaged(WorkerPool.Spec()), WorkerPool(), "n"), url).jobs
