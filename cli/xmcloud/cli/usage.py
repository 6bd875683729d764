"""`xmcloud usage`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_projects
from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.cli.tables import Cell
    from xmcloud.core.identity import Quota
    from xmcloud.core.usage import PersonUsage, ProjectUsage

COLUMNS = ("person", "running", "queued", "gpu-hours")
WIDTH = 10


@click.command(short_help="Show what people run and used, beside their quotas.")
@click.option(
    "--project",
    shell_complete=complete_projects,
    help="That of XMCLOUD_PROJECT by default, else of `xmcloud login`.",
)
@click.option("--month", metavar="YYYY-MM", help="Of UTC; this one by default.")
@json_option
def usage(project: str | None, month: str | None, as_json: bool) -> None:
    """Show what the people of a project run, and the GPU-hours of a month, beside their quotas."""
    import sys

    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.core.identity import DEFAULT_PROJECT
    from xmcloud.xm_cloud.identity_client import IdentityClient
    from xmcloud.xm_cloud.places import current_project

    with IdentityClient.connected() as client:
        found = client.usage(project or current_project() or DEFAULT_PROJECT, month)
    if as_json:
        print_json(found)
        return
    click.echo(f"Project {found.project}, {found.month}")
    print_table(COLUMNS, usage_rows(found, blocks_for(sys.stdout.encoding)))


def blocks_for(encoding: str | None) -> str:
    """A full and an empty piece of a bar, that a terminal of this encoding can show."""
    try:
        "█░".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#."
    return "█░"


def usage_rows(found: "ProjectUsage", blocks: str) -> "Sequence[Sequence[Cell]]":
    """Each person's, and at the end that of all."""
    people = [_row(each.person, each, found.person_quota, blocks) for each in found.people]
    return [*people, _row("all", found, found.quota, blocks)]


def _row(
    name: str, used: "PersonUsage | ProjectUsage", quota: "Quota", blocks: str
) -> "Sequence[Cell]":
    return (
        name,
        _share(used.running, quota.running, "", blocks),
        _share(used.queued, quota.queued, "", blocks),
        _share(used.gpu_hours, quota.gpu_hours, ".1f", blocks),
    )


def _share(used: float, quota: float | None, form: str, blocks: str) -> "Cell":
    """`3`, and where there is a quota `3 of 8  ███░░░░░░░ 38%`; red once it is reached."""
    from xmcloud.cli.tables import Span

    told = f"{used:{form}}"
    if quota is None:
        return told
    share = used / quota if quota else 1.0
    style = "red" if share >= 1 else "yellow" if share >= 0.8 else "green"
    full = min(WIDTH, int(share * WIDTH))
    bar = blocks[0] * full + blocks[1] * (WIDTH - full)
    return [Span(f"{told} of {quota:g}  "), Span(bar, style), Span(f" {share:.0%}")]
