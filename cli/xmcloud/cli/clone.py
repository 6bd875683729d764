"""`xmcloud clone`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xmcloud.cli.complete import complete_queues
from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xmcloud.core.models import Experiment, Job

_FILES = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable", ".", "/")
"""How a line begins that names files of this machine."""


def _setting(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """`lr=0.01` and the like; what is no JSON is text."""
    settings: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        name = name.lstrip("-")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not FLAG=VALUE, such as lr=0.01.", ctx, param)
        try:
            settings[name] = json.loads(text, parse_constant=str)
        except ValueError:
            settings[name] = text
    return settings


def _list(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """The text of a requirements.txt that means the same elsewhere."""
    if path is None:
        return None
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path} is no text in UTF-8.", ctx, param) from None
    for line in text.splitlines():
        if line.strip().startswith(_FILES):
            message = f"{path} has {line.strip()!r}, and workers do not have what that names."
            raise click.BadParameter(message, ctx, param)
    return text


@click.command(short_help="Copy an experiment or a job, with changes.")
@id_argument
@click.option(
    "--set",
    "settings",
    metavar="FLAG=VALUE",
    multiple=True,
    callback=_setting,
    help="Another value for a flag; JSON keeps its type. Repeat for several flags.",
)
@click.option("--title", help="Of the copy; by default that of the original.")
@click.option(
    "--commit",
    "revision",
    metavar="REVISION",
    help="Of jobs from git: a branch, a tag or a commit. What was not committed is left out.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="To run: of Python code, one that has it (see xmcloud build job).",
)
@click.option(
    "--requirement",
    "packages",
    metavar="PACKAGE",
    multiple=True,
    help="Of Python code: 'numpy==2' in place of its numpy, or besides. Repeatable.",
)
@click.option(
    "--requirements",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    callback=_list,
    help="Of Python code: this list in place of its own.",
)
@click.option(
    "--queue",
    metavar="QUEUE",
    shell_complete=complete_queues,
    help="Enqueue the copy there; without it, its jobs are drafts.",
)
@json_option
def clone(
    reference: Reference,
    settings: dict[str, Any],
    title: str | None,
    revision: str | None,
    image: str | None,
    packages: tuple[str, ...],
    requirements: str | None,
    queue: str | None,
    as_json: bool,
) -> None:
    """Copy an experiment, or one job, with some things changed.

    The copy is a new experiment. Each change is made in all jobs that it fits. What was changed
    is told on stderr.
    """
    from xmcloud.cli.changed import show_changes
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.resolve import find
    from xmcloud.cli.runs_of import jobs_of, ordered
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import CloneExperiment
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        found = find(client, reference)
        jobs = jobs_of(client, found)
        commit = _commit(revision, jobs) if revision else None
        with parsing():
            order = CloneExperiment(
                title=title,
                creator=user(),
                arguments=settings,
                commit=commit,
                image=image,
                requirements=requirements,
                packages=packages,
                queue=queue,
            )
        copy = (
            client.clone_job(found.id, order)
            if isinstance(found, Job)
            else client.clone_experiment(found.experiment.id, order)
        )
        show_changes(jobs, ordered(client.jobs_of(copy.id)))
    _tell(copy, queue, as_json)


def _commit(revision: str, jobs: "Sequence[Job]") -> str:
    """Its full id. Raises `InvalidInput` and `CannotAskRemote`."""
    from xmcloud.cli.messages import say
    from xmcloud.cli.revisions import full_commit
    from xmcloud.core.errors import InvalidInput
    from xmcloud.core.overrides import NO_GIT
    from xmcloud.core.specs import GitSource

    sources = [e for job in jobs if isinstance(e := job.spec.executable, GitSource)]
    repositories = sorted({source.repository for source in sources})
    if not repositories:
        raise InvalidInput("commit", revision, NO_GIT)
    if len(repositories) > 1:
        several = f"that of one job's copy: the jobs are of {', '.join(repositories)}"
        raise InvalidInput("commit", revision, several)
    found = full_commit(revision, repositories[0], Path.cwd())
    if found.by:
        say(f"{revision} is {found.commit[:12]}, says {found.by}.")
    return found.commit


def _tell(copy: "Experiment", queue: str | None, as_json: bool) -> None:
    from xmcloud.cli.messages import say
    from xmcloud.cli.rows import SHORT
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(copy)
        return
    id, one = copy.id[:SHORT], copy.units == 1
    what = "draft" if queue is None else "unit"
    where = "" if queue is None else f" in queue {queue}"
    click.echo(
        f"Experiment {copy.id}: {copy.title} ({copy.units} {what}{'' if one else 's'}{where})"
    )
    if queue is None:
        say(f"Start it: xmcloud enqueue {id}")
    else:
        say(f"Follow it: xmcloud logs -f {id}" if one else f"See it: xmcloud show {id}")
