"""Runs the image that the Dockerfile of this folder makes, with a list of arguments."""

from collections.abc import Sequence

from absl import app

from xmcloud import xm, xm_local


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="dockerfile") as experiment:
        [executable] = experiment.package(
            [
                xm.Packageable(
                    executable_spec=xm.Dockerfile(),
                    executor_spec=xm_local.Vertex.Spec(),
                )
            ]
        )
        experiment.add(
            xm.Job(
                executable=executable,
                executor=xm_local.Vertex(),
                args=["--from=0", "--to=3", "--steps=1000", "x ** 2"],
                env_vars={"RULE": "simpson"},
            )
        )


if __name__ == "__main__":
    app.run(main)
