"""Runs a program on this machine that Bazel builds.

Bazel finds the workspace by the folder of this script.
"""

import os
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_OUTPUT = flags.DEFINE_string("output", "primes.txt", "The file that the program writes.")


def main(_: Sequence[str]) -> None:
    with xm_local.create_experiment(experiment_title="bazel local") as experiment:
        [executable] = experiment.package(
            [
                xm.Packageable(
                    executable_spec=xm.BazelBinary(label="//:primes"),
                    executor_spec=xm_local.Local.Spec(),
                )
            ]
        )
        experiment.add(
            xm.Job(
                executable=executable,
                executor=xm_local.Local(),
                args={"below": 10_000},
                env_vars={"OUTPUT_PATH": os.path.abspath(_OUTPUT.value)},
            )
        )


if __name__ == "__main__":
    app.run(main)
