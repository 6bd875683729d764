"""`xmcloud audit`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_members, complete_projects
from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.core.audit import Audit, AuditEntry
    from xmcloud.xm_cloud.client import Client

_PAGE = 400


@click.command(short_help="Show who changed what.")
@click.option("--who", metavar="NAME", shell_complete=complete_members, help="By whom.")
@click.option("--project", metavar="PROJECT", shell_complete=complete_projects, help="In it.")
@click.option(
    "--about", metavar="ID", help="Of an experiment or a job; or of KIND/NAME, as queues/high."
)
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True)
@json_option
def audit(
    who: str | None, project: str | None, about: str | None, limit: int, as_json: bool
) -> None:
    """Show who changed what, the newest first. It is for admins.

    --json has each change in full, with the values before and after.
    """
    from xmcloud.cli import member_rows, rows
    from xmcloud.cli.tables import print_json, print_table

    if sum(given is not None for given in (who, project, about)) > 1:
        raise click.UsageError("Give one of --who, --project and --about.")
    found = _entries(who, project, about, limit)
    if as_json:
        print_json(found)
        return
    if not found.entries:
        click.echo("Nothing was changed.", err=True)
        return
    now = rows.utc_now()
    print_table(member_rows.AUDIT, [member_rows.audit_row(each, now) for each in found.entries])
    if found.cursor:
        click.echo(f"There is more: -n {limit * 5}", err=True)


def _entries(who: str | None, project: str | None, about: str | None, limit: int) -> "Audit":
    from xmcloud.core.audit import Audit
    from xmcloud.xm_cloud.identity_client import IdentityClient

    found: list[AuditEntry] = []
    cursor: str | None = None
    with IdentityClient.connected() as client:
        subject = None if about is None else _subject(client, about)
        while True:
            count = min(_PAGE, limit - len(found))
            page = client.audit(
                project=project, who=who, subject=subject, limit=count, cursor=cursor
            )
            found += page.entries
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                return Audit(entries=found, cursor=cursor)


def _subject(client: "Client", about: str) -> str:
    """COLLECTION/ID of what was named: so already, or by its id as elsewhere."""
    from xmcloud.cli.options import parse_reference
    from xmcloud.cli.resolve import find
    from xmcloud.core.models import Job

    kind, slash, name = about.partition("/")
    if slash and not name.partition("/")[0].isdecimal():
        return f"{kind}/{name}"
    found = find(client, parse_reference(about))
    return f"jobs/{found.id}" if isinstance(found, Job) else f"experiments/{found.experiment.id}"
