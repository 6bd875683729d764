"""The TensorBoard that a script adds beside its trainings."""

from pathlib import Path

import pytest

from xmcloud import xm, xm_local
from xmcloud.contrib.tensorboard import TensorboardProvider, add_tensorboard
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.planning.recorder import Recorder


def test_it_is_a_helper_that_runs_as_long_as_asked(recorder: Recorder) -> None:
    no_work = pytest.warns(UserWarning, match="has no work unit")
    with no_work, xm_local.create_experiment("curves") as experiment:
        add_tensorboard(
            experiment,
            "gs://b/logs",
            xm_local.Kubernetes(),
            60,
            args={"port": 80, "bind_all": True},
        )
    [job] = recorder.recorded.jobs
    assert (job.name, job.spec.pool) == ("tensorboard", "kubernetes")
    assert job.auxiliary is not None
    assert job.auxiliary.termination_delay_seconds == 60
    assert [(argument.name, argument.value) for argument in job.spec.arguments] == [
        ("logdir", "gs://b/logs"),
        ("port", 80),
        ("host", "0.0.0.0"),
        ("load_fast", "false"),
        ("bind_all", True),
    ]


def test_its_image_and_its_port(folder: Path) -> None:
    spec = TensorboardProvider.get_tensorboard_packageable(timeout_secs=5)
    assert spec.base_image == "tensorflow/tensorflow"
    assert spec.entrypoint == xm.CommandList(["timeout 5s tensorboard"])
    assert TensorboardProvider.get_tensorboard_job_args("logs")["port"] == 6006
    assert TensorboardProvider.get_tensorboard_job_args("logs", 1)["port"] == 1


@pytest.mark.parametrize("kind", [InvalidInput, RuntimeError])
def test_it_cannot_run_for_less_than_no_time(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"timeout_secs is -5"):
        TensorboardProvider.get_tensorboard_packageable(timeout_secs=-5)
