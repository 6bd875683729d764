"""Jobs, groups of jobs that start together, and generators that add jobs themselves."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, Union

from xmcloud.xm.arguments import SequentialArgs, UserArgs, merge_args
from xmcloud.xm.environment import EnvVars, UserEnv, parse_env_vars
from xmcloud.xm.executables import Executable
from xmcloud.xm.executors import Executor

JobGeneratorType: TypeAlias = Callable[..., Awaitable[None] | None]
JobType: TypeAlias = Union["Job", "JobGroup", "JobConfig", JobGeneratorType]


@dataclass(init=False)
class Job:
    """One executable on one executor; its default name is its executable's or its group key."""

    executable: Executable
    executor: Executor
    name: str
    args: SequentialArgs
    env_vars: EnvVars

    def __init__(
        self,
        executable: Executable,
        executor: Executor,
        name: str | None = "",
        args: UserArgs = None,
        env_vars: UserEnv | None = None,
    ) -> None:
        self.executable = executable
        self.executor = executor
        self.name = name or ""
        self.args = merge_args(args)
        self.env_vars = parse_env_vars(env_vars)


class Constraint:
    """Where the jobs of a group may run relative to each other; platforms extend it."""


class JobConfig:
    """A job in a platform's own language; platforms that have one extend it."""


@dataclass(init=False)
class JobGroup:
    """Jobs and groups, by name, that start whole or not at all."""

    jobs: dict[str, "Job | JobGroup"]
    constraints: list[Constraint]

    def __init__(
        self, /, *, constraints: Sequence[Constraint] | None = None, **jobs: "Job | JobGroup"
    ) -> None:
        """Raises TypeError for a member that is neither a job nor a group."""
        self.constraints = _checked_constraints(constraints)
        for name, member in jobs.items():
            if not isinstance(member, Job | JobGroup):
                raise TypeError(f"{name} is {member!r}; a group holds xm.Job and xm.JobGroup")
        self.jobs = jobs


def _checked_constraints(constraints: Any) -> list[Constraint]:
    match constraints:
        case None:
            return []
        case [*items] if all(isinstance(item, Constraint) for item in items):
            return items
    raise TypeError(
        f"constraints is {constraints!r}; give a list of xm.Constraint, or rename the member"
    )


def is_job_generator(job: object) -> TypeGuard[JobGeneratorType]:
    """Whether it is a function that adds jobs to the unit it is called with."""
    return callable(job)


def get_args_for_all_jobs(job: JobType, args: Mapping[str, Any]) -> dict[str, Any]:
    """What to give `add` so that every job of a group gets the same arguments."""
    if isinstance(job, JobGroup):
        return {name: get_args_for_all_jobs(member, args) for name, member in job.jobs.items()}
    return {"args": dict(args)}
