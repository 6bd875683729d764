"""Runs the code of this folder, or with --image_path an image that has it already.

--platform says what it computes on.
"""

import itertools
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_IMAGE_PATH = flags.DEFINE_string("image_path", None, "An image; by default it is built.")
_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_PLATFORM = flags.DEFINE_enum("platform", "cpu", ["cpu", "gpu", "tpu"], "What computes.")
_CORES = flags.DEFINE_integer("cores", 1, "Number of T4s with --platform=gpu.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="image or code") as experiment:
        spec: xm.ExecutableSpec
        if _IMAGE_PATH.value:
            spec = xm.Container(image_path=_IMAGE_PATH.value)
        else:
            spec = xm.PythonContainer(
                path="polynomial",
                base_image=_BASE_IMAGE.value,
                entrypoint=xm.ModuleName("fit"),
            )
        [executable] = experiment.package(
            [
                xm.Packageable(
                    executable_spec=spec,
                    executor_spec=xm_local.Vertex.Spec(),
                    args={"platform": _PLATFORM.value},
                )
            ]
        )
        requirements = xm.JobRequirements()
        if _PLATFORM.value == "gpu":
            requirements = xm.JobRequirements(t4=_CORES.value)
        elif _PLATFORM.value == "tpu":
            requirements = xm.JobRequirements(tpu_v3=8)
        for degree, rate in itertools.product([1, 3], [0.3]):
            coordinator = xm.Job(
                executable=executable,
                executor=xm_local.Vertex(requirements),
                args={"degree": degree, "learning_rate": rate},
            )
            experiment.add(xm.JobGroup(coordinator=coordinator))
    print("Everything was sent.")


if __name__ == "__main__":
    app.run(main)
