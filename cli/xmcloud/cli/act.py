"""`xmcloud stop|reset|enqueue|dequeue`: the same for jobs and for whole experiments."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import Reference, ids_argument, json_option, queue_option

if TYPE_CHECKING:
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import Acted
    from xmcloud.xm_cloud.client import Client

OnExperiment = Callable[["Client", str], "Acted"]
OnJob = Callable[["Client", str], "Job"]


@click.command(short_help="Stop experiments or jobs.")
@ids_argument
@click.option("--message", default="", help="Why; shown with the job.")
@json_option
def stop(references: tuple[Reference, ...], message: str, as_json: bool) -> None:
    """Stop experiments or jobs: what waits is stopped at once, what runs gets SIGTERM first."""
    from xmcloud.cli.failures import parsing
    from xmcloud.core.protocol import Stop
    from xmcloud.xm_cloud.identity import user

    with parsing():
        order = Stop(by=user(), message=message)
    _act(
        references,
        lambda client, id: client.stop_experiment(id, order),
        lambda client, id: client.stop_job(id, order),
        as_json,
    )


@click.command(short_help="Make drafts of finished experiments or jobs.")
@ids_argument
@json_option
def reset(references: tuple[Reference, ...], as_json: bool) -> None:
    """Make drafts of finished experiments or jobs: results go, the definition stays."""
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.identity import user

    act = Act(by=user())
    _act(
        references,
        lambda client, id: client.reset_experiment(id, act),
        lambda client, id: client.reset_job(id, act),
        as_json,
    )


@click.command(short_help="Queue drafts, stopped or failed jobs.")
@ids_argument
@queue_option
@json_option
def enqueue(references: tuple[Reference, ...], queue: str, as_json: bool) -> None:
    """Queue drafts, stopped or failed jobs, or all such jobs of experiments."""
    from xmcloud.cli.failures import parsing
    from xmcloud.core.protocol import Enqueue
    from xmcloud.xm_cloud.identity import user

    with parsing():
        order = Enqueue(by=user(), queue=queue)
    _act(
        references,
        lambda client, id: client.enqueue_experiment(id, order),
        lambda client, id: client.enqueue_job(id, order),
        as_json,
    )


@click.command(short_help="Take jobs out of their queue.")
@ids_argument
@json_option
def dequeue(references: tuple[Reference, ...], as_json: bool) -> None:
    """Take jobs out of their queue; they return to what they were before."""
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.identity import user

    act = Act(by=user())
    _act(
        references,
        lambda client, id: client.dequeue_experiment(id, act),
        lambda client, id: client.dequeue_job(id, act),
        as_json,
    )


def _act(
    references: tuple[Reference, ...], on_experiment: OnExperiment, on_job: OnJob, as_json: bool
) -> None:
    from xmcloud.cli.resolve import find
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import Acted
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        # All are looked up first, so that a mistyped one leaves the others as they are.
        targets = [find(client, reference) for reference in references]
        answers = [
            Acted(jobs=[on_job(client, target.id)])
            if isinstance(target, Job)
            else on_experiment(client, target.experiment.id)
            for target in targets
        ]
    _tell(
        Acted(
            jobs=[job for answer in answers for job in answer.jobs],
            skipped=[skipped for answer in answers for skipped in answer.skipped],
        ),
        as_json,
    )


def _tell(acted: "Acted", as_json: bool) -> None:
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.rows import full_reference
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(acted)
    else:
        for job in acted.jobs:
            stopping = " (stopping)" if job.stop else ""
            click.echo(f"{full_reference(job)}  {job.name}: {job.state}{stopping}")
        for skipped in acted.skipped:
            click.echo(f"{skipped.job_id[:8]} left as it was: {skipped.why}", err=True)
        if not acted.jobs and not acted.skipped:
            click.echo("It has no jobs.", err=True)
    if acted.skipped and not acted.jobs:
        raise click.exceptions.Exit(ExitCode.REFUSED)
