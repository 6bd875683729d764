"""`xmcloud run`."""

import os
import shlex
import shutil
from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_variables_of_secrets
from xmcloud.cli.options import (
    dry_run_option,
    json_option,
    pool_option,
    project_option,
    queue_option,
    scope,
)

if TYPE_CHECKING:
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import NewUnits
    from xmcloud.xm_cloud.client import Client
    from xmcloud.xm_cloud.planning.recorder import Recorder

PASSED_ON = ("PATH", "VIRTUAL_ENV", "PYTHONPATH")
"""Variables of the caller that the command gets, so that it finds what it would find here."""

_TITLE_LENGTH = 100


def _environment(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """`K=V`, or `K` for the value it has here."""
    variables: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; write {name}=VALUE.", ctx, param)
        variables[name] = text if equals else os.environ[name]
    return variables


def _secrets(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`K=NAME`."""
    for value in values:
        if not all(value.partition("=")):
            raise click.BadParameter(f"{value!r} names no secret; write {value}=NAME.", ctx, param)
    return dict(value.split("=", 1) for value in values)


@click.command(
    short_help="Run one command as an experiment.",
    context_settings={"allow_interspersed_args": False},
)
@queue_option
@click.option("--title", help="Of the experiment; by default the command itself.")
@click.option("--name", help="Of the job; by default the program's.")
@click.option(
    "--env",
    metavar="K=V",
    multiple=True,
    callback=_environment,
    help="A variable for the command; K alone passes on the one from here. Repeatable.",
)
@click.option(
    "--secret",
    "secrets",
    metavar="K=NAME",
    multiple=True,
    callback=_secrets,
    shell_complete=complete_variables_of_secrets,
    help="A variable that holds the project's secret of that name. Repeatable.",
)
@pool_option
@project_option
@click.option("--detach", is_flag=True, help="Submit it and return; follow with `xmcloud logs -f`.")
@dry_run_option
@json_option
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    queue: str,
    title: str | None,
    name: str | None,
    env: dict[str, str],
    secrets: dict[str, str],
    pool: str,
    project: str | None,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Run one command as an experiment: tracked, queued, its log kept.

    It runs in this folder, with this PATH. Its output is shown as it comes, and `xmcloud run`
    ends with its exit status. With --json the job is printed at the end, and the log on stderr;
    of a dry run, the plan.
    """
    from xmcloud.cli.failures import parsing
    from xmcloud.core.protocol import NewExperiment
    from xmcloud.xm_cloud.identity import user
    from xmcloud.xm_cloud.places import on_this_machine
    from xmcloud.xm_cloud.planning.recorder import Recorder

    located = (_program(command[0]), *command[1:])
    with parsing():
        unit = _unit(name or os.path.basename(command[0]), located, env, secrets, pool, queue)
        new = NewExperiment(
            title=title or _shown(command), project=scope(project, False), creator=user()
        )
    with _client(dry_run) as client:
        if pool == "local" and not on_this_machine(client.url):
            raise click.UsageError(
                f"The control plane {client.url} is on another machine; name a --pool of workers "
                "that have this folder, or unset XMCLOUD_URL."
            )
        experiment = client.create_experiment(new)
        (job,) = client.add_units(experiment.id, unit)
        if isinstance(client, Recorder):
            _show_plan(client, as_json)
        elif detach:
            _submitted(job, as_json)
        else:
            _attend(client, job, as_json)


def _client(dry_run: bool) -> "Client":
    from xmcloud.cli.messages import say
    from xmcloud.local.control import ensure_up
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.planning.recorder import Recorder

    if dry_run:
        return Recorder()
    ensure_up(say)
    return connect()


def _show_plan(recorder: "Recorder", as_json: bool) -> None:
    from xmcloud.cli.dry_run import show_plan
    from xmcloud.xm_cloud.planning.plan import plan_of

    show_plan(plan_of(recorder), as_json)


def _program(name: str) -> str:
    """The absolute path of the program; the worker's PATH may be another one."""
    found = shutil.which(name)
    if found is None:
        raise click.UsageError(f"There is no program {name!r} here; give its path.")
    return os.path.abspath(found)


def _shown(command: tuple[str, ...]) -> str:
    line = " ".join(shlex.join(command).split())
    return line if len(line) <= _TITLE_LENGTH else f"{line[: _TITLE_LENGTH - 1]}…"


def _unit(
    name: str,
    command: tuple[str, ...],
    env: dict[str, str],
    secrets: dict[str, str],
    pool: str,
    queue: str,
) -> "NewUnits":
    from xmcloud.core.protocol import NewJob, NewUnit, NewUnits
    from xmcloud.core.specs import Command, JobSpec

    passed_on = (key for key in PASSED_ON if key in os.environ and key not in secrets)
    here = {key: os.environ[key] for key in passed_on}
    spec = JobSpec(
        executable=Command(command=command, directory=os.getcwd()),
        environment={**here, **env},
        secrets=secrets,
        pool=pool,
    )
    return NewUnits(units=(NewUnit(jobs=(NewJob(name=name, spec=spec, queue=queue),)),))


def _submitted(job: "Job", as_json: bool) -> None:
    from xmcloud.cli.rows import full_reference
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(job)
    else:
        click.echo(f"{full_reference(job)}  {job.name}: {job.state} in {job.queue}")
        click.echo(f"Follow it: xmcloud logs -f {full_reference(job)}", err=True)


def _attend(client: "Client", job: "Job", as_json: bool) -> None:
    """Show the log until the job is over, then end as it did."""
    import sys

    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.follow import follow
    from xmcloud.cli.rows import first_line, full_reference
    from xmcloud.cli.tables import print_json

    reference = full_reference(job)
    click.echo(f"Job {reference} in queue {job.queue}; its log follows.", err=True)
    try:
        job = follow(client, job, sys.stderr if as_json else sys.stdout)
    except KeyboardInterrupt:
        click.echo(
            f"\nJob {reference} goes on. Follow it: xmcloud logs -f {reference}; "
            f"stop it: xmcloud stop {reference}",
            err=True,
        )
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        print_json(job)
    if status := exit_status(job):
        click.echo(f"Job {reference} {job.state}: {first_line(job.reason.message)}", err=True)
        raise click.exceptions.Exit(status)


def exit_status(job: "Job") -> int:
    """That of the command as a shell tells it: 128 and the number for a signal."""
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.core.models import JobState

    if job.state is JobState.COMPLETED:
        return ExitCode.OK
    code = job.reason.exit_code
    if not code:
        return ExitCode.JOB_FAILED
    return code if code > 0 else 128 - code
