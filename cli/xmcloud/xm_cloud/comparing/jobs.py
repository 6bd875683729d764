"""Comparing two jobs: how they are defined, what ran, and what came of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from xmcloud.core.models import Execution, Job
from xmcloud.core.runs import for_anyone
from xmcloud.core.specs import Image, JobSpec
from xmcloud.xm_cloud.comparing import facts
from xmcloud.xm_cloud.comparing.differences import (
    Change,
    Difference,
    Pair,
    Section,
    between,
)
from xmcloud.xm_cloud.masking import masked
from xmcloud.xm_cloud.rows import short


@dataclass(frozen=True, slots=True)
class Side:
    """A job, what a command takes for it, and the packages of its environment where known."""

    job: Job
    name: str
    freeze: str | None = None


def compare(a: Side, b: Side) -> Pair:
    """All of it; what is equal too."""
    specs = for_anyone(a.job.spec), for_anyone(b.job.spec)
    found = [*definitions(*specs), *_ran(a, b)]
    found += between(Section.OUTCOME, facts.outcome(a.job), facts.outcome(b.job))
    found += compared_results(a.job, b.job)
    order = list(Section)
    found.sort(key=lambda each: order.index(each.section))
    return Pair(a=a.name, b=b.name, differences=found, unknown=[*_unknown(a, b)])


def definitions(a: JobSpec, b: JobSpec) -> Iterator[Difference]:
    """How they are defined. Secret values of variables are masked, also where they differ."""
    others = facts.defined(b)
    for section, mine in facts.defined(a).items():
        for each in between(section, mine, others[section]):
            yield hidden(each) if section is Section.ENVIRONMENT else each


def hidden(each: Difference) -> Difference:
    """Of variables of the environment; what is absent stays absent."""
    a, b = (None if v is None else masked(each.name, str(v)) for v in (each.a, each.b))
    return each.evolve(a=a, b=b)


def compared_packages(a: Side, b: Side) -> Iterator[Difference]:
    """Those that were installed, where both are known."""
    if a.freeze is not None and b.freeze is not None:
        yield from between(Section.PACKAGES, facts.packages(a.freeze), facts.packages(b.freeze))


def compared_results(a: Job, b: Job) -> Iterator[Difference]:
    """Numbers with how much more B has."""
    for each in between(Section.RESULTS, facts.results(a), facts.results(b)):
        yield each.evolve(note=_growth(each))


def _ran(a: Side, b: Side) -> Iterator[Difference]:
    ran_a, ran_b = facts.execution(a.job), facts.execution(b.job)
    if ran_a and ran_b:
        yield from between(Section.CODE, _image(a.job, ran_a), _image(b.job, ran_b))
        yield from between(Section.MACHINE, facts.machine(ran_a), facts.machine(ran_b))
    yield from compared_packages(a, b)


def _image(job: Job, ran: Execution) -> Mapping[str, JsonValue]:
    """What its name stood for; other code is exact in the definition."""
    return {"image as it ran": ran.code} if isinstance(job.spec.executable, Image) else {}


def _unknown(a: Side, b: Side) -> Iterator[str]:
    without = [side for side in (a, b) if facts.execution(side.job) is None]
    for side in without:
        yield f"Python, machine and installed packages: {side.name} never ran on a worker"
    if not without and (a.freeze is None) != (b.freeze is None):
        side = a if a.freeze is None else b
        yield f"installed packages: {side.name} has no list of them"


def _growth(each: Difference) -> str:
    a, b = _number(each.a), _number(each.b)
    if each.change is not Change.CHANGED or a is None or b is None:
        return ""
    return f"{'+' if b >= a else ''}{short(b - a)}"


def _number(value: JsonValue) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
