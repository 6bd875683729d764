"""Finds the largest eigenvalue of a matrix on the eight cores of a TPU, in an image of its own.

Its image is made by instructions of this script instead of the usual ones.
"""

from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_NUMERICS = flags.DEFINE_string("numerics", "jax[tpu]", "The package that computes: JAX or NumPy.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="tpu") as experiment:
        spec = xm.PythonContainer(
            path="power",
            base_image=_BASE_IMAGE.value,
            docker_instructions=[
                "ENV PIP_BREAK_SYSTEM_PACKAGES=1",
                f"RUN python3 -m pip install --no-cache-dir '{_NUMERICS.value}'",
                "COPY power/ /power",
                "RUN python3 -m compileall -q /power",
                "WORKDIR /power",
            ],
            entrypoint=xm.ModuleName("iterate"),
        )
        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Vertex.Spec())]
        )
        for size in (64, 256):
            experiment.add(
                xm.Job(
                    executable=executable,
                    executor=xm_local.Vertex(requirements=xm.JobRequirements(tpu_v2=8)),
                    args={"size": size},
                )
            )


if __name__ == "__main__":
    app.run(main)
