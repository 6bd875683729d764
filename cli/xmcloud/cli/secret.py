"""`xmcloud secret`."""

import sys
from typing import BinaryIO

import click

from xmcloud.cli.complete import complete_secrets
from xmcloud.cli.options import json_option, project_option, scope

_name = click.argument("name", metavar="NAME", shell_complete=complete_secrets)


@click.group(short_help="Keep secrets for the jobs of a project.")
def secret() -> None:
    """Keep secrets for the jobs of a project, which name them and alone are told their values."""


@secret.command("set", short_help="Keep a value, in place of an earlier one.")
@_name
@click.option(
    "--from-file", type=click.File("rb"), metavar="FILE", help="What the file holds, all of it."
)
@project_option
@json_option
def set_secret(name: str, from_file: BinaryIO | None, project: str | None, as_json: bool) -> None:
    """Keep a value. It is asked for without being shown, or read from standard input.

    A line's end after the last line of standard input is no part of it.

    \b
      xmcloud secret set wandb
      pass show wandb | xmcloud secret set wandb
      xmcloud run --secret WANDB_API_KEY=wandb -- python train.py
    """
    from xmcloud.cli.tables import print_json
    from xmcloud.core.identity import DEFAULT_PROJECT
    from xmcloud.core.secrets import checked_value
    from xmcloud.xm_cloud.secrets_client import SecretsClient

    where = scope(project, everywhere=False)
    value = _value(from_file)
    checked_value(value)
    with SecretsClient.connected() as client:
        kept = client.set_secret(where, name, value)
    if as_json:
        print_json(kept)
        return
    of_project = "" if where == DEFAULT_PROJECT else f" of project {where}"
    click.echo(f"Secret {kept.name}{of_project}: set")
    click.echo(f"Give it to a job: xmcloud run --secret VARIABLE={kept.name} -- ...", err=True)


@secret.command("list", short_help="List names, and who set them when.")
@project_option
@json_option
def list_secrets(project: str | None, as_json: bool) -> None:
    """List the names of the secrets of the project, and who set them when; no values."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.secrets_client import SecretsClient

    with SecretsClient.connected() as client:
        found = client.secrets(scope(project, everywhere=False))
    if as_json:
        print_json(found)
    elif not found.secrets:
        click.echo("No secrets. Set one: xmcloud secret set NAME", err=True)
    else:
        now = rows.utc_now()
        told = [[each.name, each.set_by, rows.instant(each.set_at, now)] for each in found.secrets]
        print_table(("name", "set by", "set"), told)


@secret.command(short_help="Forget a value.")
@_name
@project_option
@json_option
def remove(name: str, project: str | None, as_json: bool) -> None:
    """Forget a value. Jobs that name it fail when they start."""
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.secrets_client import SecretsClient

    with SecretsClient.connected() as client:
        removed = client.remove_secret(scope(project, everywhere=False), name)
    if as_json:
        print_json(removed)
    else:
        click.echo(f"Secret {removed.name}: removed")


def _value(file: BinaryIO | None) -> str:
    """Raises click's UsageError for what is no text."""
    if file is None and sys.stdin.isatty():
        typed: str = click.prompt("Value", hide_input=True, err=True)
        return typed
    data = file.read() if file is not None else sys.stdin.buffer.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("The value is no text in UTF-8; encode it, in base64 say.") from None
    return text if file is not None else text.removesuffix("\n").removesuffix("\r")
