"""Trains in a container on this machine that gets its GPUs.

With --interactive, this terminal becomes that of the container.
"""

from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_NAME = flags.DEFINE_string("exp_name", "local gpu", "Name of the experiment.", short_name="n")
_INTERACTIVE = flags.DEFINE_bool("interactive", False, "Attach this terminal to the container.")
_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_GPUS = flags.DEFINE_integer("gpus", 1, "How many GPUs; none with 0.")


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError("Too many command-line arguments.")
    with xm_local.create_experiment(experiment_title=_NAME.value) as experiment:
        gpus = {"local_gpu": _GPUS.value} if _GPUS.value else {}
        executor = xm_local.Local(
            xm.JobRequirements(gpus),
            docker_options=xm_local.DockerOptions(interactive=_INTERACTIVE.value),
            experimental_stream_output=True,
        )
        [executable] = experiment.package(
            [
                xm.python_container(
                    executor_spec=executor.Spec(),
                    path="line",
                    base_image=_BASE_IMAGE.value,
                    entrypoint=xm.ModuleName("line.guess"),
                    use_deep_module=True,
                    args={"interactive": _INTERACTIVE.value},
                )
            ]
        )
        experiment.add(xm.Job(executable, executor))


if __name__ == "__main__":
    app.run(main)
