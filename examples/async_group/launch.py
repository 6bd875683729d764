"""Trains each of several settings on a group of nodes on Vertex AI, and waits for all of them.

The nodes find the first of them at `master_addr_port`, which is known when the group starts.
"""

import itertools
from collections.abc import Sequence

from absl import app, flags

from xmcloud import xm, xm_local

_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_NODES = flags.DEFINE_integer("nodes", 2, "Number of nodes of each group.")
_GPUS = flags.DEFINE_integer("gpus_per_node", 1, "T4s of each node.")


@xm.run_in_asyncio_loop
async def main(_: Sequence[str]) -> None:
    async with xm_local.create_experiment(experiment_title="async group") as experiment:
        spec = xm.PythonContainer(
            path="perceptron",
            base_image=_BASE_IMAGE.value,
            entrypoint=xm.ModuleName("node"),
        )
        first = "%objectname(workerpool0)%"
        [executable] = experiment.package(
            [
                xm.Packageable(
                    executable_spec=spec,
                    executor_spec=xm_local.Vertex.Spec(),
                    args={"master_addr_port": xm.ShellSafeArg(first)},
                )
            ]
        )
        requirements = xm.JobRequirements(t4=_GPUS.value)
        work_units = []
        for size, rate in itertools.product([8, 32], [0.5]):
            group = xm.JobGroup()
            for rank in range(_NODES.value):
                group.jobs[f"node_{rank}"] = xm.Job(
                    executable=executable,
                    executor=xm_local.Vertex(requirements),
                    args={
                        "batch_size": size,
                        "learning_rate": rate,
                        "world_size": _NODES.value,
                        "rank": rank,
                    },
                )
            work_units.append(await experiment.add(group))
        print(f"{len(work_units)} groups are on their way.")
    for work_unit in work_units:
        await work_unit.wait_until_complete()
    print("Experiment completed.")


if __name__ == "__main__":
    app.run(main)
