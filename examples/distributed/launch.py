"""Trains on several machines at once, which find each other through TF_CONFIG.

--strategy=multi_worker: equal workers, which average their gradients after every step.
--strategy=parameter_server: workers that read and change the weights of a server, and a chief.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from absl import app, flags

from xmcloud import xm, xm_local

_STRATEGY = flags.DEFINE_enum(
    "strategy", "multi_worker", ["multi_worker", "parameter_server"], "How the machines share work."
)
_PLATFORM = flags.DEFINE_enum(
    "platform", "kubernetes", ["kubernetes", "vertex", "local"], "Where the machines are."
)
_BASE_IMAGE = flags.DEFINE_string("base_image", "python:3.12-slim", "What the image builds on.")
_GPUS = flags.DEFINE_integer("gpus_per_node", 1, "T4s of each job that computes; none with 0.")
_WORKERS = flags.DEFINE_integer("workers", 3, "How many.")

EXECUTORS: dict[str, Any] = {
    "kubernetes": xm_local.Kubernetes,
    "vertex": xm_local.Vertex,
    "local": xm_local.Local,
}

Generator = Callable[..., Awaitable[None]]


def main(_: Sequence[str]) -> None:
    executor = EXECUTORS[_PLATFORM.value]
    with xm_local.create_experiment(experiment_title=_STRATEGY.value) as experiment:
        [executable] = experiment.package(
            [
                xm.python_container(
                    executor.Spec(),
                    path="linear",
                    base_image=_BASE_IMAGE.value,
                    entrypoint=xm.ModuleName(f"linear.{_STRATEGY.value}"),
                    use_deep_module=True,
                )
            ]
        )
        gpus = {"t4": _GPUS.value} if _GPUS.value else {}
        computes = executor(requirements=xm.JobRequirements(gpus))
        tasks: dict[str, list[xm.Executor]] = {"worker": [computes] * _WORKERS.value}
        if _STRATEGY.value == "parameter_server":
            tasks = {"chief": [computes], **tasks, "ps": [executor()]}
        for rate in (0.1, 0.01):
            experiment.add(cluster(executable, tasks), args={"learning_rate": rate})


def cluster(executable: xm.Executable, tasks: Mapping[str, Sequence[xm.Executor]]) -> Generator:
    """Adds a job for each task; TF_CONFIG tells it which one it is, and where the others are."""
    names = {kind: [f"{kind}_{n}" for n in range(len(those))] for kind, those in tasks.items()}
    addresses = {kind: [f"%objectname({name})%" for name in those] for kind, those in names.items()}

    async def generate(work_unit: xm.WorkUnit, **hyperparameters: float) -> None:
        group = xm.JobGroup()
        for kind, executors in tasks.items():
            for index, executor in enumerate(executors):
                own = {"cluster": addresses, "task": {"type": kind, "index": index}}
                group.jobs[names[kind][index]] = xm.Job(
                    executable,
                    executor,
                    args=hyperparameters,
                    env_vars={"TF_CONFIG": json.dumps(own)},
                )
        work_unit.add(group)

    return generate


if __name__ == "__main__":
    app.run(main)
