"""Searches for the lowest point of a valley: what came of a trial decides where the next looks.

Needs Optuna: pip install 'xmcloud[search]'.
"""

from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local
from xmcloud.xm_cloud import vizier as vizier_cloud
from xmcloud.xm_cloud.vizier import StudySpec

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_TRIALS = flags.DEFINE_integer("trials", 20, "How many trials in all.")
_PARALLEL = flags.DEFINE_integer("parallel", 2, "How many of them at once.")


def study_spec() -> StudySpec:
    """Two numbers, and the loss to make small with them."""
    return StudySpec(
        parameters=[
            StudySpec.ParameterSpec(
                parameter_id=name,
                double_value_spec=StudySpec.ParameterSpec.DoubleValueSpec(
                    min_value=-2.0, max_value=2.0
                ),
            )
            for name in ("x", "y")
        ],
        metrics=[
            StudySpec.MetricSpec(metric_id="loss", goal=StudySpec.MetricSpec.GoalType.MINIMIZE)
        ],
    )


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="search") as experiment:
        spec = xm.PythonContainer(
            path="valley",
            base_image=_BASE_IMAGE.value,
            entrypoint=xm.ModuleName("valley"),
        )
        [executable] = experiment.package(
            [xm.Packageable(executable_spec=spec, executor_spec=xm_local.Local.Spec())]
        )
        vizier_cloud.VizierExploration(
            experiment=experiment,
            job=xm.Job(executable=executable, executor=xm_local.Local()),
            study_factory=vizier_cloud.NewStudy(study_config=study_spec()),
            num_trials_total=_TRIALS.value,
            num_parallel_trial_runs=_PARALLEL.value,
        ).launch()


if __name__ == "__main__":
    app.run(main)
