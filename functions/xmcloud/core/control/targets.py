"""The targets of a control plane, and whether they could run what is added."""

from collections.abc import Sequence

from xmcloud.core.control.plane import ControlPlane, Target
from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.models import Job


def require_target(plane: ControlPlane, name: str) -> Target:
    """Raises `NotFound`."""
    target = plane.targets.get(name)
    if target is None:
        known = ", ".join(sorted(plane.targets)) or "none"
        raise NotFound(
            "target",
            name,
            f"This control plane has: {known}. To rehearse it on this machine: "
            "xmcloud down, then xmcloud up --stand-ins.",
        )
    return target


def check_targets(plane: ControlPlane, units: Sequence[Sequence[Job]]) -> None:
    """Raises `NotFound` for a target that is not there, `InvalidInput` for jobs it cannot run."""
    for unit in units:
        first = unit[0].spec
        names = {first.overflow.target} if first.overflow else set[str]()
        if first.pool in plane.targets or any(job.spec.platform for job in unit):
            names |= {first.pool} if not first.overflow else set()
        for name in sorted(names):
            target = require_target(plane, name)
            if len(unit) > target.limit:
                expected = f"at most {target.limit} in a group: {name} runs no more at a time"
                raise InvalidInput("jobs", len(unit), expected)
            target.platform.check(unit)
