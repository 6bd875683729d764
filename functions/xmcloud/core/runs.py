"""Runs of plain scripts, as jobs that only the process which is there already may take."""

from xmcloud.core.specs import JobSpec, Limits

POOL = "runs"
"""Of all such processes. One pool, since each has subscriptions that stay."""

_OWN = "run-"


def own_resource(id: str) -> str:
    """What one process alone has, so that its job fits nobody else."""
    return f"{_OWN}{id}"


def for_its_process(spec: JobSpec, resource: str) -> JobSpec:
    """Taken by who has the resource, and not run again when that is gone."""
    limits = Limits(infrastructure_retries=0)
    return spec.evolve(pool=POOL, resources={resource: 1}, limits=limits)


def for_anyone(spec: JobSpec) -> JobSpec:
    """The definition as workers take it; that of any other job is left as it is."""
    if spec.pool != POOL:
        return spec
    left = {name: n for name, n in spec.resources.items() if not name.startswith(_OWN)}
    limits = spec.limits.evolve(infrastructure_retries=Limits().infrastructure_retries)
    return spec.evolve(pool="", resources=left, limits=limits)
