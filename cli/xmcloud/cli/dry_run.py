"""Dry runs: what would be sent is shown, and nothing is sent."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import click

from xmcloud.cli.messages import say
from xmcloud.cli.tables import print_json, print_table
from xmcloud.xm_cloud.masking import MASKED
from xmcloud.xm_cloud.planning.plan import Plan, PlannedJob
from xmcloud.xm_cloud.times import duration

COLUMNS = (
    *("unit", "job", "queue", "runs on", "machine", "replicas", "USD/h"),
    *("image", "environment", "argv"),
)


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """What the script and its processes print, so that stdout is left to the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def show_plan(plan: Plan, as_json: bool) -> None:
    """The table, or one JSON document; why a script ended early stands on stderr."""
    if plan.ended:
        say(
            f"The script {plan.ended}, which a dry run cannot: the plan holds what it added before."
        )
    if as_json:
        print_json(plan)
        return
    for name, title in plan.experiments.items():
        click.echo(f"{name}: {title}")
        rows = [_row(job) for job in plan.jobs if job.experiment == name]
        if rows:
            print_table(*_without_empty(rows))
    click.echo(_total(plan))
    click.echo("Nothing was sent.")


def _row(job: PlannedJob) -> list[str]:
    return [
        str(job.unit),
        job.name,
        job.queue,
        _where(job),
        _machine(job),
        str(job.replicas) if job.replicas > 1 else "",
        _price(job),
        job.image,
        " ".join(_variables(job)),
        shlex.join(job.argv),
    ]


def _variables(job: PlannedJob) -> Iterator[str]:
    yield from (f"{name}={_value(value)}" for name, value in job.environment.items())
    yield from (f"{name}=(secret {secret})" for name, secret in job.secrets.items())


def _value(text: str) -> str:
    return text if text == MASKED else shlex.quote(text)


def _without_empty(rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns in which something stands."""
    kept = [index for index in range(len(COLUMNS)) if any(row[index] for row in rows)]
    return [COLUMNS[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _where(job: PlannedJob) -> str:
    pool = job.pool or "any pool"
    if job.overflow is None:
        return pool
    return f"{pool}, after {duration(job.overflow.after_seconds)} {job.overflow.target}"


def _machine(job: PlannedJob) -> str:
    accelerators = [f"{count:g} {kind}" for kind, count in job.accelerators.items()]
    return " + ".join([part for part in (job.machine, *accelerators) if part])


def _price(job: PlannedJob) -> str:
    if job.hourly_price is None:
        return "?"
    return f"{job.hourly_price:.2f}" if job.hourly_price else "-"


def _total(plan: Plan) -> str:
    if not plan.jobs:
        return "No job would be added."
    jobs = "1 job" if len(plan.jobs) == 1 else f"{len(plan.jobs)} jobs"
    prices = plan.prices
    if not plan.hourly_price and not plan.unpriced:
        return f"Together: {jobs}, on your own machines."
    known = f"{plan.hourly_price:.2f} USD/h"
    if plan.unpriced:
        known += f" and {plan.unpriced} of unknown price"
    return (
        f"Together: {jobs}, {known}: an estimate from the list prices of {prices.region} on "
        f"{prices.date}, without disks and network."
    )
