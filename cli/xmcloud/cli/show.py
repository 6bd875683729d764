"""`xmcloud list` and `xmcloud show`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import Experiments, ExperimentStatus

_PAGE = 100


@click.command("list", short_help="List experiments, the newest first.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@json_option
def list_experiments(limit: int, as_json: bool) -> None:
    """List experiments, the newest first."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table

    listed = _experiments(limit)
    if as_json:
        print_json(listed)
        return
    if not listed.experiments:
        click.echo("No experiments yet. Make one: xmcloud run -- COMMAND", err=True)
        return
    now = rows.utc_now()
    print_table(rows.EXPERIMENTS, [rows.experiment_row(each, now) for each in listed.experiments])
    if listed.cursor:
        click.echo(f"There are more: xmcloud list --limit {limit * 5}", err=True)


@click.command(short_help="Show an experiment or a job.")
@id_argument
@json_option
def show(reference: Reference, as_json: bool) -> None:
    """Show an experiment with its jobs, or a job with its attempts."""
    from xmcloud.cli.resolve import find
    from xmcloud.cli.tables import print_json
    from xmcloud.core.models import Job
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = find(client, reference)
        if isinstance(found, Job):
            print_json(found) if as_json else _show_job(found)
            return
        jobs = list(client.jobs_of(found.experiment.id))
    if as_json:
        from xmcloud.cli.documents import ExperimentDocument

        print_json(ExperimentDocument(experiment=found.experiment, states=found.states, jobs=jobs))
    else:
        _show_experiment(found, jobs)


def _experiments(limit: int) -> "Experiments":
    from xmcloud.core.protocol import Experiments
    from xmcloud.xm_cloud.client import connect

    found: list[ExperimentStatus] = []
    cursor: str | None = None
    with connect() as client:
        while True:
            page = client.experiments(min(_PAGE, limit - len(found)), cursor)
            found += page.experiments
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                return Experiments(experiments=found, cursor=cursor)


def _show_experiment(status: "ExperimentStatus", jobs: "list[Job]") -> None:
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_table

    experiment, now = status.experiment, rows.utc_now()
    print_fields(
        [
            ("Experiment", experiment.id),
            ("Title", experiment.title),
            ("Creator", experiment.creator),
            ("Created", rows.instant(experiment.created_at, now)),
            ("Cloned from", experiment.cloned_from or ""),
            ("Tags", ", ".join(experiment.tags)),
            ("Notes", experiment.notes),
            ("Jobs", rows.state_counts(status.states)),
        ]
    )
    if jobs:
        click.echo()
        print_table(rows.JOBS, [rows.job_row(job, now) for job in jobs])


def _show_job(job: "Job") -> None:
    import json

    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_table

    now = rows.utc_now()
    print_fields(
        [
            ("Job", job.id),
            ("Experiment", f"{job.experiment_id}, unit {job.unit}"),
            ("Name", job.name),
            ("State", rows.state_cell(job)),
            ("Reason", job.reason.message),
            ("Queue", job.queue if job.waiting else ""),
            ("Pool", rows.pool(job)),
            ("Group", ", ".join(member.name for member in job.group)),
            ("Platform", rows.remote(job)),
            ("Runs", rows.command_line(job)),
            ("Created", rows.instant(job.created_at, now)),
            ("Cloned from", job.cloned_from or ""),
            ("Results", json.dumps(job.results, ensure_ascii=False) if job.results else ""),
        ]
    )
    if job.attempts:
        click.echo()
        print_table(rows.ATTEMPTS, [rows.attempt_row(each, now) for each in job.attempts])
