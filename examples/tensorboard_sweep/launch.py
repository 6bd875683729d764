"""Fits a network with several learning rates on Vertex AI, each on its own T4.

One TensorBoard shows all of them: pass the name of an instance with --tensorboard. The curves go
to the bucket that GOOGLE_CLOUD_BUCKET_NAME names, by default to the control plane's own.
"""

import itertools
import os
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_TENSORBOARD = flags.DEFINE_string("tensorboard", None, "projects/../locations/../tensorboards/..")
_GPUS = flags.DEFINE_integer("gpus_per_node", 1, "T4s of each job.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="tensorboard sweep") as experiment:
        spec = xm.PythonContainer(
            path="wave",
            base_image=_BASE_IMAGE.value,
            entrypoint=xm.ModuleName("fit"),
        )
        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Vertex.Spec())]
        )
        bucket = os.environ.get("GOOGLE_CLOUD_BUCKET_NAME")
        for index, (units, rate) in enumerate(itertools.product([8, 32], [0.03, 0.1])):
            board = None
            if _TENSORBOARD.value:
                output = f"{bucket}/{experiment.experiment_id}/{index}" if bucket else None
                board = xm_local.TensorboardCapability(_TENSORBOARD.value, output)
            experiment.add(
                xm.Job(
                    executable=executable,
                    executor=xm_local.Vertex(
                        requirements=xm.JobRequirements(t4=_GPUS.value), tensorboard=board
                    ),
                    args={"hidden_units": units, "learning_rate": rate},
                )
            )


if __name__ == "__main__":
    app.run(main)
