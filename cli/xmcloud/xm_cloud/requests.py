"""From the jobs of a launch script to requests of the control plane."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from xmcloud import xm
from xmcloud.core import models, specs
from xmcloud.core.bindings import names_bound
from xmcloud.core.errors import InvalidInput
from xmcloud.core.machines import check_vertex_group
from xmcloud.core.models import GROUP_LIMIT, Auxiliary
from xmcloud.core.protocol import NewJob, NewUnit
from xmcloud.xm_cloud.arguments import to_protocol
from xmcloud.xm_cloud.containers import container_options
from xmcloud.xm_cloud.executors import VERTEX, Local, PlacedExecutor, shown
from xmcloud.xm_cloud.packaging.package import Packaged
from xmcloud.xm_cloud.places import on_this_machine
from xmcloud.xm_cloud.unsupported import Unsupported, warn_of_unused

REPLICA, REPLICAS = "XMCLOUD_REPLICA", "XMCLOUD_REPLICAS"
QUEUES = {xm.Importance.HIGH: "high", xm.Importance.NORMAL: "default", xm.Importance.LOW: "low"}


def jobs_of(job: xm.JobType, args: Mapping[str, Any] | None) -> list[xm.Job]:
    """Copies of all jobs in order, with the overrides of `add` over them and their names filled in.

    Raises `Unsupported` for constraints, and ValueError for overrides of nothing.
    """
    if not isinstance(job, xm.Job | xm.JobGroup):
        raise TypeError(f"{job!r} was added to a unit; add an xm.Job or an xm.JobGroup")
    _refuse_constraints(job)
    jobs = list(xm.named_jobs(xm.apply_args(job, args)).values())
    if not jobs:
        raise InvalidInput("job", job, "a group with a job in it")
    return jobs


def _refuse_constraints(job: xm.Job | xm.JobGroup) -> None:
    if isinstance(job, xm.Job):
        return
    if job.constraints:
        raise Unsupported(
            f"constraints of a group are {job.constraints!r}.",
            "Leave them out: the jobs of a group start together, wherever there is room for all.",
        )
    for member in job.jobs.values():
        _refuse_constraints(member)


def new_unit(jobs: Sequence[xm.Job], role: xm.ExperimentUnitRole, control_plane: str) -> NewUnit:
    """For the control plane at that URL.

    Raises `Unsupported` or `InvalidInput` for what cannot run, or not there.
    """
    if isinstance(role, xm.WorkUnitRole):
        warn_of_unused("tags", list(role.tags), [], "on a unit; give them to create_experiment")
    executors = [_executor(job, control_plane) for job in jobs]
    try:
        _check_one_place(jobs, executors)
        queue = _queue(executors, role)
        made = tuple(
            new
            for job, executor in zip(jobs, executors, strict=True)
            for new in _new_jobs(job, executor, queue)
        )
        if len(made) > GROUP_LIMIT:
            raise InvalidInput("jobs", len(made), f"at most {GROUP_LIMIT} of a unit")
        unit = NewUnit(jobs=made, auxiliary=_auxiliary(role))
    except ValidationError as error:
        raise first_fault(error) from None
    _check_bindings(unit)
    if VERTEX in _targets(unit.jobs[0].spec):
        check_vertex_group(unit.jobs)
    return unit


def _executor(job: xm.Job, control_plane: str) -> PlacedExecutor:
    executable, executor = job.executable, job.executor
    if not isinstance(executor, PlacedExecutor):
        raise Unsupported(
            f"executor is {executor!r}.",
            "Use Local(..), WorkerPool(..), Vertex(..), Kubernetes(..) or Overflow(..).",
        )
    if isinstance(executor, Local) and not on_this_machine(control_plane):
        raise Unsupported(
            f"executor is Local(..), but the control plane {control_plane} is on another machine.",
            "Use WorkerPool(..), or unset XMCLOUD_URL to run everything here.",
        )
    if not isinstance(executable, Packaged):
        raise InvalidInput("executable", executable, "what experiment.package(..) returned")
    if not isinstance(executable.executor_spec, executor.Spec):
        kind = type(executor).__name__
        expected = f"{kind}.Spec() for a job that runs on {kind}"
        raise InvalidInput("executor_spec", executable.executor_spec, expected)
    return executor


def _check_one_place(jobs: Sequence[xm.Job], executors: Sequence[PlacedExecutor]) -> None:
    """Jobs that start together do so in one place, which their executors agree about."""
    first = executors[0]
    for job, executor in zip(jobs, executors, strict=True):
        for what, mine, other in _place(executor, first):
            if mine != other:
                raise InvalidInput(
                    f"{what} of {job.name}",
                    mine,
                    f"{other!r}, as that of {jobs[0].name}: the jobs of a group run in one place",
                )


def _place(mine: PlacedExecutor, other: PlacedExecutor) -> Iterator[tuple[str, object, object]]:
    """What has to be the same; a TensorBoard may be that of any of them."""
    yield "executor", shown(mine), shown(other)
    yield "pool", mine.pool, other.pool
    yield "overflow", mine.overflow, other.overflow
    if mine.platform is not None and other.platform is not None:
        for name in type(mine.platform).model_fields:
            if name != "tensorboard":
                yield name, getattr(mine.platform, name), getattr(other.platform, name)


def _queue(executors: Sequence[PlacedExecutor], role: xm.ExperimentUnitRole) -> str:
    """The one that an executor names, else that of the unit's importance."""
    named = list(dict.fromkeys(each.queue for each in executors if each.queue is not None))
    if len(named) > 1:
        raise InvalidInput("queue", named, "one for all jobs of a group")
    return named[0] if named else QUEUES[role.importance]


def _new_jobs(job: xm.Job, executor: PlacedExecutor, queue: str) -> Iterator[NewJob]:
    """One job, or one for each replica where the platform knows no replicas."""
    spec, count = _spec(job, executor), executor.requirements.replicas
    if count == 1 or executor.replicated:
        yield NewJob(name=job.name, spec=spec.evolve(replicas=count), queue=queue)
        return
    for index in range(count):
        environment = {**spec.environment, REPLICA: str(index), REPLICAS: str(count)}
        replica = spec.evolve(environment=environment)
        yield NewJob(name=f"{job.name}_{index}", spec=replica, queue=queue)


def _spec(job: xm.Job, executor: PlacedExecutor) -> specs.JobSpec:
    variables = xm.effective_env_vars(job)
    return specs.JobSpec(
        executable=_executable(job, executor),
        arguments=to_protocol(xm.effective_args(job)),
        environment={k: v for k, v in variables.items() if not isinstance(v, xm.Secret)},
        secrets={k: v.name for k, v in variables.items() if isinstance(v, xm.Secret)},
        resources=executor.resources(),
        topology=executor.topology,
        pool=executor.pool,
        overflow=executor.overflow,
        platform=executor.platform,
    )


def _executable(job: xm.Job, executor: PlacedExecutor) -> specs.Executable:
    assert isinstance(job.executable, Packaged)
    executable = job.executable.executable
    if not isinstance(executor, Local):
        return executable
    if isinstance(executable, specs.Image):
        options = container_options(executor.docker_options, os.path.expanduser("~"))
        return executable.evolve(options=options)
    warn_of_unused("docker_options", executor.docker_options, None, "on what runs as a process")
    return executable


def _auxiliary(role: xm.ExperimentUnitRole) -> Auxiliary | None:
    if not isinstance(role, xm.AuxiliaryUnitRole):
        return None
    return Auxiliary(
        importance=models.Importance(role.importance.value),
        termination_delay_seconds=role.termination_delay_secs,
    )


def _check_bindings(unit: NewUnit) -> None:
    """Whether late bindings name jobs of the unit, by their own or full names or by number."""
    names = [job.name for job in unit.jobs]
    known = {*names, *(f"workerpool{index}" for index in range(len(names)))}
    for job in unit.jobs:
        for bound in names_bound(job.spec):
            if bound not in known and not any(bound.endswith(f"_{name}") for name in names):
                raise InvalidInput(
                    f"%objectname(..)% of {job.name}",
                    bound,
                    f"the name of a job of the unit: {', '.join(names)}",
                )


def _targets(spec: specs.JobSpec) -> set[str]:
    """Where it may run besides on workers."""
    return {spec.pool} if spec.overflow is None else {spec.overflow.target}


def first_fault(error: ValidationError) -> InvalidInput:
    """The first thing that is wrong, as an error for people."""
    about = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in about["loc"])
    return InvalidInput(field, about["input"], f"valid: {about['msg']}")
