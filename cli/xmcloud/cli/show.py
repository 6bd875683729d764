"""`xmcloud list` and `xmcloud show`."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import Reference, id_argument, json_option, project_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xmcloud.core.models import Job
    from xmcloud.core.protocol import Cause, Experiments, ExperimentStatus
    from xmcloud.xm_cloud.client import Client

_PAGE = 100


@click.command("list", short_help="List experiments, the newest first.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@project_option
@click.option("--all-projects", is_flag=True, help="Of all, whatever your login's project is.")
@json_option
def list_experiments(limit: int, project: str | None, all_projects: bool, as_json: bool) -> None:
    """List experiments, the newest first; of one project, if one is chosen."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.places import current_project

    if project is not None and all_projects:
        raise click.UsageError("Give --project or --all-projects.")
    listed = _experiments(limit, None if all_projects else project or current_project() or None)
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
            if as_json:
                print_json(found)
                return
            started = found.state.active or found.state.terminal
            _show_job(found, [] if started else client.pending(found.id).causes)
            if found.attempts:
                _show_newest_attempt(client, found)
            if found.results:
                _show_results(client, found)
            return
        jobs = sorted(client.jobs_of(found.experiment.id), key=place_in_experiment)
        why = {} if as_json else _why_waiting(client, found)
    if as_json:
        from xmcloud.cli.documents import ExperimentDocument

        print_json(ExperimentDocument(experiment=found.experiment, states=found.states, jobs=jobs))
    else:
        _show_experiment(found, jobs, why)


def _experiments(limit: int, project: str | None) -> "Experiments":
    from xmcloud.core.protocol import Experiments
    from xmcloud.xm_cloud.client import connect

    found: list[ExperimentStatus] = []
    cursor: str | None = None
    with connect() as client:
        while True:
            page = client.experiments(min(_PAGE, limit - len(found)), cursor, project)
            found += page.experiments
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                return Experiments(experiments=found, cursor=cursor)


def _why_waiting(client: "Client", status: "ExperimentStatus") -> dict[str, str]:
    """By job, in a few words; asked only where something waits that was enqueued."""
    from xmcloud.core.models import JobState
    from xmcloud.core.protocol import CauseCode

    if not any(status.states.get(state) for state in (JobState.QUEUED, JobState.BUILDING)):
        return {}
    told = client.pending_in(status.experiment.id)
    if told.left_out:
        jobs = "1 more job waits" if told.left_out == 1 else f"{told.left_out} more jobs wait"
        click.echo(f"Why {jobs} is not shown here; to hear it of one: xmcloud show JOB", err=True)
    first = [(each.causes[0], each.jobs) for each in told.pending]
    return {
        job: cause.message
        for cause, jobs in first
        for job in jobs
        if cause.code is not CauseCode.DRAFT
    }


def _show_experiment(status: "ExperimentStatus", jobs: "list[Job]", why: "dict[str, str]") -> None:
    from xmcloud.cli import rows
    from xmcloud.cli.result_columns import compared
    from xmcloud.cli.result_tables import terminal_width
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
    if not jobs:
        return
    table = compared(jobs, terminal_width())
    told = [rows.job_row(job, now, why.get(job.id, ""), with_results=table is None) for job in jobs]
    click.echo()
    print_table(rows.JOBS, told)
    if table is not None:
        click.echo()
        print_table(*table)


def _show_job(job: "Job", causes: "Sequence[Cause]") -> None:
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
            *rows.remote(job),
            ("Runs", rows.command_line(job)),
            ("Secrets", ", ".join(f"{name}={each}" for name, each in job.spec.secrets.items())),
            ("Created", rows.instant(job.created_at, now)),
            ("Cloned from", job.cloned_from or ""),
        ]
    )
    for number, cause in enumerate(causes):
        click.echo(rows.waits_because(cause, first=number == 0))
    if job.attempts:
        click.echo()
        print_table(rows.ATTEMPTS, [rows.attempt_row(job, each, now) for each in job.attempts])


def _show_newest_attempt(client: "Client", job: "Job") -> None:
    """What it really ran, and what that used."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_statistics
    from xmcloud.core.errors import NotFound

    told = job.attempts[-1].execution
    if told is not None:
        click.echo()
        print_fields(rows.execution(told, _count_packages(client, told.packages)))
    with suppress(NotFound):
        print_statistics(client.statistics(job.id))


def _show_results(client: "Client", job: "Job") -> None:
    from xmcloud.cli.result_tables import print_results
    from xmcloud.cli.results import whole_results

    print_results(client, job, whole_results(client, job.results))


def _count_packages(client: "Client", digest: str | None) -> int | None:
    from xmcloud.core.errors import NotFound

    if digest is None:
        return None
    try:
        return len(client.get_blob(digest).splitlines())
    except NotFound:
        return None


def place_in_experiment(job: "Job") -> tuple[int, int]:
    """By unit, and in the order of its group."""
    return job.unit, job.members.index(job.id)
