"""Pure work on jobs before they are sent: overrides of `add`, names, and what a job really gets."""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

from xmcloud.xm.arguments import SequentialArgs, merge_args
from xmcloud.xm.environment import EnvVars, parse_env_vars
from xmcloud.xm.jobs import Job, JobGroup

_OVERRIDES = ("args", "env_vars")


def apply_args(job: Job | JobGroup, args: Mapping[str, Any] | None) -> Job | JobGroup:
    """A copy of the job or group with the `args` of `add` over its own.

    For a job they hold `args` and `env_vars`, for a group the same by member name, recursively.
    Raises ValueError for any other key.
    """
    return _applied(job, args, "args")


def _applied(job: Job | JobGroup, args: Any, where: str) -> Job | JobGroup:
    if args is not None and not isinstance(args, Mapping):
        raise ValueError(f"{where} is {args!r}; give a mapping")
    if isinstance(job, Job):
        return _applied_to_job(job, args or {}, where)
    return _applied_to_group(job, args or {}, where)


def _applied_to_job(job: Job, args: Mapping[str, Any], where: str) -> Job:
    _check_keys(args, _OVERRIDES, where)
    applied = copy(job)
    applied.args = merge_args(job.args, args.get("args"))
    applied.env_vars = job.env_vars | parse_env_vars(args.get("env_vars"))
    return applied


def _applied_to_group(group: JobGroup, args: Mapping[str, Any], where: str) -> JobGroup:
    _check_keys(args, tuple(group.jobs), where)
    applied = copy(group)
    applied.jobs = {
        name: _applied(member, args.get(name), f"{where}[{name!r}]")
        for name, member in group.jobs.items()
    }
    return applied


def _check_keys(args: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in args:
        if key not in known:
            raise ValueError(f"{where} holds {key!r}; only {', '.join(known)} can stand there")


def named_jobs(job: Job | JobGroup) -> dict[str, Job]:
    """Copies of all jobs, flat and in order, each under its own name, which is filled in.

    A job without a name gets its executable's or, in a group, its path of keys joined by `_`.
    Raises ValueError when two jobs have one name.
    """
    named: dict[str, Job] = {}
    for path, member in _walk(job, ()):
        applied = copy(member)
        applied.name = member.name or "_".join(path) or member.executable.name
        if applied.name in named:
            raise ValueError(f"two jobs of the group are named {applied.name!r}; rename one")
        named[applied.name] = applied
    return named


def _walk(job: Job | JobGroup, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Job]]:
    if isinstance(job, Job):
        yield path, job
        return
    for name, member in job.jobs.items():
        yield from _walk(member, (*path, name))


def effective_args(job: Job) -> SequentialArgs:
    """The job's arguments over its packageable's."""
    return merge_args(job.executable.args, job.args)


def effective_env_vars(job: Job) -> EnvVars:
    """The job's environment over its packageable's; Python's output is unbuffered by default."""
    return {"PYTHONUNBUFFERED": "1", **job.executable.env_vars, **job.env_vars}
