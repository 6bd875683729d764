"""What a launch would run, where, and for how much."""

import datetime
from collections.abc import Callable

from xmcloud.core.arguments import command_line, render
from xmcloud.core.base import Model
from xmcloud.core.builds import BuildSpec
from xmcloud.core.machines import vertex_machine
from xmcloud.core.models import Job
from xmcloud.core.resources import ORDINARY
from xmcloud.core.specs import (
    Binary,
    Command,
    GitSource,
    Image,
    JobSpec,
    Overflow,
    PythonSource,
    VertexOptions,
)
from xmcloud.xm_cloud.executors import VERTEX
from xmcloud.xm_cloud.masking import masked
from xmcloud.xm_cloud.packaging.planned import OURS
from xmcloud.xm_cloud.planning.prices import Prices, list_prices
from xmcloud.xm_cloud.planning.recorder import Recorder

EXPERIMENT = "EXPERIMENT"
"""Stands for the id that an experiment would get."""

ENTRYPOINT = "ENTRYPOINT"
"""Stands for what an image declares to run."""


class PlannedJob(Model):
    """A job as it would be sent."""

    experiment: str
    unit: int
    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    secrets: dict[str, str] = {}
    image: str
    queue: str
    pool: str
    overflow: Overflow | None
    machine: str
    accelerators: dict[str, float]
    replicas: int
    hourly_price: float | None
    price_source: str


class PriceTable(Model):
    """Where the prices are from."""

    date: datetime.date
    region: str
    source: str


class Plan(Model):
    """All jobs of a launch; `ended` says why a script could not go on."""

    experiments: dict[str, str]
    jobs: list[PlannedJob]
    hourly_price: float
    unpriced: int
    prices: PriceTable
    ended: str | None = None


def plan_of(recorder: Recorder, prices: Prices | None = None) -> Plan:
    """What was recorded; the placeholder of each experiment has its title."""
    prices = prices or list_prices()
    recorded = recorder.recorded
    names = {
        id: EXPERIMENT if number == 1 else f"{EXPERIMENT}{number}"
        for number, id in enumerate(recorded.experiments, 1)
    }
    jobs = [_planned(job, names, recorded.builds, prices) for job in recorded.jobs]
    known = [job.hourly_price for job in jobs if job.hourly_price is not None]
    return Plan(
        experiments={names[id]: each.title for id, each in recorded.experiments.items()},
        jobs=jobs,
        hourly_price=round(sum(known), 6),
        unpriced=len(jobs) - len(known),
        prices=PriceTable(date=prices.date, region=prices.region, source=prices.source),
        ended=recorder.ended.what if recorder.ended else None,
    )


def _planned(
    job: Job, names: dict[str, str], builds: dict[str, BuildSpec], prices: Prices
) -> PlannedJob:
    spec, named = job.spec, _renamer(names)
    price, source = _price(spec, prices)
    return PlannedJob(
        experiment=names[job.experiment_id],
        unit=job.unit,
        name=named(job.name),
        argv=tuple(map(named, _argv(spec))),
        environment={name: masked(name, named(text)) for name, text in spec.environment.items()},
        secrets=spec.secrets,
        image=_image(spec, builds),
        queue=job.queue,
        pool=spec.pool,
        overflow=spec.overflow,
        machine=vertex_machine(spec).machine_type if target_of(spec) == VERTEX else "",
        accelerators={kind: n for kind, n in spec.resources.items() if kind not in ORDINARY},
        replicas=spec.replicas,
        hourly_price=price,
        price_source=source,
    )


def _renamer(names: dict[str, str]) -> Callable[[str], str]:
    def named(text: str) -> str:
        for id, name in names.items():
            text = text.replace(id, name)
        return text

    return named


def target_of(spec: JobSpec) -> str:
    """The platform that it runs on, or may run on in the end; '' for workers alone."""
    if spec.overflow is not None:
        return spec.overflow.target
    return spec.pool if spec.platform is not None else ""


def _argv(spec: JobSpec) -> list[str]:
    executable = spec.executable
    match executable:
        case Command():
            start = executable.command
        case PythonSource() | GitSource():
            start = executable.entrypoint
        case Binary():
            start = (executable.name,)
        case Image():
            start = executable.command or (ENTRYPOINT,)
    if spec.overflow is None and target_of(spec):
        return [*start, *render(spec.arguments)]
    return command_line(start, spec.arguments)


def _image(spec: JobSpec, builds: dict[str, BuildSpec]) -> str:
    """What is started, or made first."""
    executable = spec.executable
    match executable:
        case Command():
            return "process"
        case PythonSource() | GitSource():
            return "environment of requirements.txt" if executable.requirements else "environment"
        case Binary():
            return "program"
        case Image() if executable.build is not None:
            return f"build: {builds[executable.build].name} ({executable.build})"
        case Image():
            ours = executable.image.startswith(OURS)
            return f"build: {executable.image.removeprefix(OURS)}" if ours else executable.image


def _price(spec: JobSpec, prices: Prices) -> tuple[float | None, str]:
    """In US dollars an hour, and where that is from."""
    match target_of(spec):
        case "":
            return 0.0, "own machines"
        case "vertex":
            kind = (
                "spot"
                if isinstance(spec.platform, VertexOptions) and spec.platform.spot
                else "on-demand"
            )
            found = prices.vertex(spec)
            where = f"Vertex AI {kind}, {prices.region}, {prices.date}"
            if found is None:
                return None, f"not in the table ({where})"
            return found, f"{where}, if it overflows" if spec.overflow else where
        case target:
            return None, f"{target}: depends on the cluster"
