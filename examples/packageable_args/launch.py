"""Learns to walk a grid; what every agent needs is said once, when its image is packaged.

The settings are a file that --config names: it goes into the image, and the arguments of the
packaged executable tell its name.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_CONFIG = flags.DEFINE_string("config", "agent/small.json", "Settings, a file below this folder.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="packageable args") as experiment:
        config = os.path.basename(_CONFIG.value)
        spec = xm.PythonContainer(
            path="agent",
            base_image=_BASE_IMAGE.value,
            docker_instructions=[
                "COPY agent/ /agent",
                f"COPY {_CONFIG.value} /settings/{config}",
                "WORKDIR /agent",
            ],
            entrypoint=xm.ModuleName("walk"),
        )
        [executable] = experiment.package(
            [
                xm.Packageable(
                    executable_spec=spec,
                    executor_spec=xm_local.Vertex.Spec(),
                    args={"config_file": f"/settings/{config}", "seed": 1, "verbose": True},
                    env_vars={"AGENT": "q-learning"},
                )
            ]
        )
        executor = xm_local.Vertex(xm.JobRequirements(t4=1))
        experiment.add(xm.Job(executable, executor))
        experiment.add(xm.Job(executable, executor, args={"seed": 2, "verbose": None}))
        experiment.add(
            xm.Job(executable, executor, args={"seed": 2}, env_vars={"AGENT": "sarsa"}),
            args={"args": {"seed": 3, "episodes": 200}},
        )


if __name__ == "__main__":
    app.run(main)
