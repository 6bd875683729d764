"""Groups for TensorFlow's strategies, as jobs that would be sent."""

import json
from typing import Any

import pytest

from xmcloud import xm, xm_local
from xmcloud.contrib import xm_tensorflow
from xmcloud.core.models import Job
from xmcloud.xm_cloud.packaging.container_entrypoint import bound
from xmcloud.xm_cloud.planning.recorder import Recorder

EXECUTORS = [xm_local.Kubernetes(), xm_local.Vertex(), xm_local.Local()]
RATE = {"learning_rate": 0.1}


def image(experiment: xm.Experiment, executor: Any) -> xm.Executable:
    [executable] = experiment.package([xm.container(executor.Spec(), "tf", args={"seed": 1})])
    return executable


def config(job: Job) -> Any:
    return json.loads(job.spec.environment["TF_CONFIG"])


def flags(job: Job) -> dict[str | None, object]:
    return {argument.name: argument.value for argument in job.spec.arguments}


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda each: type(each).__name__)
def test_equal_workers_know_each_other(recorder: Recorder, executor: Any) -> None:
    with xm_local.create_experiment("mirrored") as experiment:
        builder = xm_tensorflow.MultiWorkerMirroredStrategyBuilder(
            experiment=experiment,
            worker_executable=image(experiment, executor),
            worker_executor=executor,
            worker_name="node",
            num_workers=2,
        )
        experiment.add(builder.gen_job_group(), args=RATE)
    jobs = recorder.recorded.jobs
    assert [(job.unit, job.name) for job in jobs] == [(1, "node-0"), (1, "node-1")]
    workers = {"worker": ["%objectname(node-0)%", "%objectname(node-1)%"]}
    assert [config(job) for job in jobs] == [
        {"cluster": workers, "task": {"type": "worker", "index": index}} for index in (0, 1)
    ]
    assert [flags(job) for job in jobs] == [{"seed": 1, **RATE}] * 2


def test_two_workers_a_parameter_server_and_their_chief(recorder: Recorder) -> None:
    cluster, gpu = xm_local.Kubernetes(), xm_local.Kubernetes(xm.JobRequirements(t4=1))
    with xm_local.create_experiment("served") as experiment:
        executable = image(experiment, cluster)
        builder = xm_tensorflow.ParameterServerStrategyBuilder(
            experiment=experiment,
            chief_executable=executable,
            chief_executor=gpu,
            worker_executable=executable,
            worker_executor=gpu,
            ps_executable=executable,
            ps_executor=cluster,
            num_workers=2,
            num_ps=1,
        )
        experiment.add(builder.gen_job_group(), args=RATE)
    jobs = {job.name: job for job in recorder.recorded.jobs}
    addresses = {
        "chief": ["%objectname(chief)%"],
        "ps": ["%objectname(ps-0)%"],
        "worker": ["%objectname(worker-0)%", "%objectname(worker-1)%"],
    }
    tasks = {"chief": ("chief", 0), "ps-0": ("ps", 0), "worker-0": ("worker", 0)}
    for name, (kind, index) in {**tasks, "worker-1": ("worker", 1)}.items():
        task = {"type": kind, "index": index}
        assert config(jobs.pop(name)) == {"cluster": addresses, "task": task}
    assert jobs == {}
    chief, ps, *workers = recorder.recorded.jobs
    assert flags(chief) == {"seed": 1}
    assert [flags(job) for job in (ps, *workers)] == [{"seed": 1, **RATE}] * 3
    gpus = [job.spec.resources.get("t4") for job in recorder.recorded.jobs]
    assert gpus == [1, None, 1, 1]


def test_the_config_is_whole_when_its_addresses_are_filled_in() -> None:
    named = {"cluster": {"worker": [xm.get_workerpool_address("worker-0")]}}
    peers = {"worker-0": "10.0.0.1:2222"}
    environment = {"TF_CONFIG": json.dumps(named), "XMCLOUD_PEERS": json.dumps(peers)}
    _, variables = bound([], environment)
    assert json.loads(variables["TF_CONFIG"]) == {"cluster": {"worker": ["10.0.0.1:2222"]}}
