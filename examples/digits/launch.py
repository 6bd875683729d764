"""Searches two hyperparameters of a classifier of handwritten digits: eight units.

xmcloud launch examples/digits/launch.py
"""

import itertools
from collections.abc import Sequence

from xmcloud import xm, xm_local


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="digits") as experiment:
        spec = xm.PythonContainer(path="train", entrypoint=xm.ModuleName("train"))
        [executable] = experiment.package([xm.Packageable(spec, xm_local.Local.Spec())])
        for units, rate in itertools.product([16, 64], [0.0003, 0.001, 0.01, 0.1]):
            experiment.add(
                xm.Job(executable, xm_local.Local()),
                args={"args": {"hidden_units": units, "learning_rate": rate}},
            )
