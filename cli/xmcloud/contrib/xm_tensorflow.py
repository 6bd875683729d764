"""Groups of jobs for TensorFlow's strategies, which learn from TF_CONFIG where the others are.

Addresses are late bindings, so that the groups run on every executor.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from xmcloud import xm

__all__ = ["MultiWorkerMirroredStrategyBuilder", "ParameterServerStrategyBuilder"]

Generator = Callable[..., Awaitable[None]]


class _Task(NamedTuple):
    """One process of the cluster."""

    name: str
    executable: xm.Executable
    executor: xm.Executor
    args: xm.UserArgs


class _Builder(ABC):
    @abstractmethod
    def create_job_group(self, work_unit: xm.WorkUnit, hparams: xm.UserArgs) -> xm.JobGroup: ...

    def gen_job_group(self) -> Generator:
        """What to `add` to the experiment; the `args` of that are the hyperparameters."""

        async def generate(work_unit: xm.WorkUnit, **hparams: Any) -> None:
            await work_unit.add(self.create_job_group(work_unit, hparams))

        return generate


@dataclass
class MultiWorkerMirroredStrategyBuilder(_Builder):
    """Equal workers, named `<worker_name>-0` and so on."""

    experiment: xm.Experiment
    worker_executable: xm.Executable
    worker_executor: xm.Executor
    worker_name: str = "worker"
    num_workers: int = 1

    def create_job_group(self, work_unit: xm.WorkUnit, hparams: xm.UserArgs) -> xm.JobGroup:
        """The group of one work unit."""
        names = _numbered(self.worker_name, self.num_workers)
        workers = [
            _Task(name, self.worker_executable, self.worker_executor, hparams) for name in names
        ]
        return _group({"worker": workers})


@dataclass
class ParameterServerStrategyBuilder(_Builder):
    """A chief that leads workers and parameter servers, numbered as `<ps_name>-0`.

    The chief gets the arguments of its executable alone, the others the hyperparameters too.
    """

    experiment: xm.Experiment
    chief_executable: xm.Executable
    chief_executor: xm.Executor
    worker_executable: xm.Executable
    worker_executor: xm.Executor
    ps_executable: xm.Executable
    ps_executor: xm.Executor
    chief_name: str = "chief"
    worker_name: str = "worker"
    ps_name: str = "ps"
    num_workers: int = 1
    num_ps: int = 1

    def create_job_group(self, work_unit: xm.WorkUnit, hparams: xm.UserArgs) -> xm.JobGroup:
        """The group of one work unit."""
        chief = _Task(self.chief_name, self.chief_executable, self.chief_executor, None)
        servers = [
            _Task(name, self.ps_executable, self.ps_executor, hparams)
            for name in _numbered(self.ps_name, self.num_ps)
        ]
        workers = [
            _Task(name, self.worker_executable, self.worker_executor, hparams)
            for name in _numbered(self.worker_name, self.num_workers)
        ]
        return _group({"chief": [chief], "ps": servers, "worker": workers})


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{index}" for index in range(count)]


def _group(cluster: Mapping[str, Sequence[_Task]]) -> xm.JobGroup:
    addresses = {
        kind: [xm.get_workerpool_address(task.name) for task in tasks]
        for kind, tasks in cluster.items()
    }
    group = xm.JobGroup()
    for kind, tasks in cluster.items():
        for index, task in enumerate(tasks):
            config = {"cluster": addresses, "task": {"type": kind, "index": index}}
            group.jobs[task.name] = xm.Job(
                task.executable,
                task.executor,
                args=task.args,
                env_vars={"TF_CONFIG": json.dumps(config)},
            )
    return group
