"""`xmcloud clone`."""

import json
from typing import TYPE_CHECKING, Any

import click

from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from xmcloud.core.models import Experiment


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


@click.command(short_help="Copy an experiment or a job as drafts.")
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
@json_option
def clone(reference: Reference, settings: dict[str, Any], title: str | None, as_json: bool) -> None:
    """Copy an experiment, or one job, to a new experiment whose jobs are drafts."""
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.resolve import find
    from xmcloud.core.models import Job
    from xmcloud.core.protocol import CloneExperiment
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with parsing():
        order = CloneExperiment(title=title, creator=user(), arguments=settings)
    with connect() as client:
        found = find(client, reference)
        copy = (
            client.clone_job(found.id, order)
            if isinstance(found, Job)
            else client.clone_experiment(found.experiment.id, order)
        )
    _tell(copy, as_json)


def _tell(copy: "Experiment", as_json: bool) -> None:
    from xmcloud.cli.rows import SHORT
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(copy)
        return
    drafts = "draft" if copy.units == 1 else "drafts"
    click.echo(f"Experiment {copy.id}: {copy.title} ({copy.units} {drafts})")
    click.echo(f"Start it: xmcloud enqueue {copy.id[:SHORT]}", err=True)
