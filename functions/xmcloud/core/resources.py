"""What is common to the resources of a job wherever it runs."""

import math
from collections.abc import Iterable, Mapping

from xmcloud.core.specs import JobSpec

ORDINARY = ("cpu", "memory", "disk")
ANY_GPU = "gpu"
GPU_TYPES = frozenset(
    (
        "p4",
        "t4",
        "p100",
        "v100",
        "a100",
        "a100-80gib",
        "l4",
        "l4-24th",
        "h100",
        "h100-mega",
        "h200",
        "b200",
        "b300",
        "gb200",
        "gb300",
        "vr200",
        "b40-48th",
    )
)


def accelerator(spec: JobSpec) -> str:
    """The kind of accelerator that a job asks for; '' for none."""
    return next((name for name in spec.resources if name not in ORDINARY), "")


def is_gpu(name: str) -> bool:
    return name == ANY_GPU or name in GPU_TYPES


def left_after(free: Mapping[str, float], wanted: Mapping[str, float]) -> dict[str, float]:
    """What is surely left of a worker for another job; all that is wanted is there.

    A GPU counts under several names, and a job has whole ones and a share of one more.
    """
    left = dict(free)
    for name, amount in wanted.items():
        if not is_gpu(name):
            left[name] -= amount
            continue
        for other in _same_devices(name, left):
            left[other] = max(0.0, left[other] - math.ceil(amount))
        left[name] = _of_devices(left[name], amount)
    return left


def _of_devices(free: float, amount: float) -> float:
    """Of so many whole devices and, at best, one with a part left."""
    whole, part = divmod(free, 1)
    wanted, share = divmod(amount, 1)
    whole -= wanted
    if share > part:
        whole, part = whole - 1, max(part, 1 - share)
    else:
        part -= share
    return round(whole + part, 6)


def _same_devices(name: str, names: Iterable[str]) -> list[str]:
    """Other names under which a device of that name may count: `a100` is also `a100-80gib`."""
    others = [other for other in names if is_gpu(other) and other != name]
    if name == ANY_GPU:
        return others
    return [o for o in others if o == ANY_GPU or o.startswith(name) or name.startswith(o)]
