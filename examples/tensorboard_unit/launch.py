"""Trains in containers on this machine while a TensorBoard beside them shows how it goes.

The TensorBoard is an auxiliary unit: it ends by itself, a while after the last training.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the images build on.")
_LOG_DIR = flags.DEFINE_string("tensorboard_log_dir", "logs", "A folder for the curves.")
_PORT = flags.DEFINE_integer("tensorboard_port", 6006, "Where to look at them.")
_DELAY = flags.DEFINE_integer("tensorboard_timeout_secs", 600, "How long after the last training.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="tensorboard unit") as experiment:
        classify, board = experiment.package(
            [
                xm.python_container(
                    xm_local.Local.Spec(),
                    path="clouds",
                    base_image=_BASE_IMAGE.value,
                    entrypoint=xm.ModuleName("classify"),
                ),
                xm.python_container(
                    xm_local.Local.Spec(),
                    path="board",
                    base_image=_BASE_IMAGE.value,
                    entrypoint=xm.ModuleName("tensorboard.main"),
                    args={"logdir": "/logs", "bind_all": True},
                ),
            ]
        )
        logs = os.path.abspath(_LOG_DIR.value)
        os.makedirs(logs, exist_ok=True)
        port = _PORT.value
        shown = xm_local.DockerOptions(volumes={logs: "/logs"}, ports={port: port})
        experiment.add(
            xm.AuxiliaryUnitJob(
                xm.Job(board, xm_local.Local(docker_options=shown), args={"port": port}),
                termination_delay_secs=_DELAY.value,
            )
        )
        written = xm_local.DockerOptions(volumes={logs: "/logs"})
        for rate in (0.1, 0.01):
            experiment.add(
                xm.Job(
                    classify,
                    xm_local.Local(docker_options=written),
                    args={
                        "learning_rate": rate,
                        "log_dir": f"/logs/{experiment.experiment_id}/{rate}",
                    },
                )
            )


if __name__ == "__main__":
    app.run(main)
