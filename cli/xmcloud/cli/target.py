"""`xmcloud target`."""

import click

from xmcloud.cli.options import json_option


@click.group(short_help="Look at the platforms that take jobs.")
def target() -> None:
    """Look at the platforms that take jobs from the queues: Vertex AI, Kubernetes."""


@target.command("list", short_help="List targets: what runs there, and what they refuse.")
@json_option
def list_targets(as_json: bool) -> None:
    """List targets: what runs there, and what they refuse for now."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = client.targets()
    if as_json:
        print_json(found)
    elif not found.targets:
        click.echo(
            "This control plane has no targets. Rehearse some here: xmcloud up --stand-ins",
            err=True,
        )
    else:
        now = rows.utc_now()
        print_table(rows.TARGETS, [rows.target_row(each, now) for each in found.targets])
