"""From the jobs of a launch script to requests of the control plane."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import JobSpec
from xmcloud.core.protocol import NewJob, NewUnit
from xmcloud.xm_cloud.arguments import to_protocol
from xmcloud.xm_cloud.executors import Local, WorkerPool, resources_of
from xmcloud.xm_cloud.packaging import Packaged
from xmcloud.xm_cloud.places import on_this_machine
from xmcloud.xm_cloud.unsupported import Unsupported


def single_job(job: xm.JobType, args: Mapping[str, Any] | None) -> xm.Job:
    """A copy of the one job, with the overrides of `add` over it and its name filled in.

    Raises `Unsupported` for a group of several.
    """
    if not isinstance(job, xm.Job | xm.JobGroup):
        raise TypeError(f"{job!r} was added to a unit; add an xm.Job")
    jobs = list(xm.named_jobs(xm.apply_args(job, args)).values())
    if len(jobs) != 1:
        raise Unsupported(
            f"A group of {len(jobs)} jobs was added.",
            "Add each job by itself: experiment.add(job); groups that start together come later.",
        )
    return jobs[0]


def new_unit(job: xm.Job, control_plane: str) -> NewUnit:
    """For the control plane at that URL.

    Raises `Unsupported` or `InvalidInput` for what cannot run.
    """
    executable, executor = job.executable, job.executor
    if isinstance(executor, Local) and not on_this_machine(control_plane):
        raise Unsupported(
            f"executor is Local(..), but the control plane {control_plane} is on another machine.",
            "Use WorkerPool(..), or unset XMCLOUD_URL to run everything here.",
        )
    if not isinstance(executor, Local | WorkerPool):
        raise Unsupported(f"executor is {executor!r}.", "Use Local(..) or WorkerPool(..).")
    if not isinstance(executable, Packaged):
        raise InvalidInput("executable", executable, "what experiment.package(..) returned")
    if not isinstance(executable.executor_spec, executor.Spec):
        raise InvalidInput(
            "executor_spec",
            executable.executor_spec,
            f"{type(executor).__name__}.Spec() for a job that runs on {type(executor).__name__}",
        )
    try:
        return NewUnit(
            jobs=(
                NewJob(name=job.name, spec=_spec(job, executable, executor), queue=executor.queue),
            )
        )
    except ValidationError as error:
        raise first_fault(error) from None


def _spec(job: xm.Job, executable: Packaged, executor: Local | WorkerPool) -> JobSpec:
    return JobSpec(
        executable=executable.executable,
        arguments=to_protocol(xm.effective_args(job)),
        environment=xm.effective_env_vars(job),
        resources=resources_of(executor.requirements),
        pool=executor.pool,
    )


def first_fault(error: ValidationError) -> InvalidInput:
    """The first thing that is wrong, as an error for people."""
    about = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in about["loc"])
    return InvalidInput(field, about["input"], f"valid: {about['msg']}")
