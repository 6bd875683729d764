"""`xmcloud token`."""

import click

from xmcloud.cli.options import everywhere_option, json_option, project_option, scope


@click.group(short_help="Make tokens for machines, and revoke them.")
def token() -> None:
    """Make tokens for machines that have no identity of Google's, and revoke them."""


@token.command(short_help="Make a token, and print it this once.")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["viewer", "member", "operator", "admin", "worker"]),
    required=True,
    help="What its bearer may do; a worker's is good everywhere.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=90, show_default=True)
@project_option
@everywhere_option
@json_option
def create(
    name: str, role: str, days: int, project: str | None, everywhere: bool, as_json: bool
) -> None:
    """Make a token. It alone is printed on stdout, and never again: the control plane forgets it.

    xmcloud token create box-1 --role worker > token
    """
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.member_rows import place
    from xmcloud.cli.tables import print_json
    from xmcloud.core.identity import Role
    from xmcloud.core.member_protocol import NewToken
    from xmcloud.xm_cloud.identity_client import IdentityClient

    where = scope(project, everywhere or (role == "worker" and project is None))
    with parsing():
        new = NewToken(name=name, role=Role(role), days=days)
    with IdentityClient.connected() as client:
        made = client.create_token(where, new)
    if as_json:
        print_json(made)
        return
    about = made.about
    click.echo(
        f"Token {about.id}: {about.role} {place(about.project)}, until "
        f"{about.expires_at:%Y-%m-%d}. Revoke it: xmcloud token revoke {about.id}",
        err=True,
    )
    click.echo(made.token)


@token.command("list", short_help="List tokens, without their secrets.")
@project_option
@everywhere_option
@json_option
def list_tokens(project: str | None, everywhere: bool, as_json: bool) -> None:
    """List the tokens of the project, or with --everywhere those that are good everywhere."""
    from xmcloud.cli import member_rows, rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.identity_client import IdentityClient

    with IdentityClient.connected() as client:
        found = client.tokens(scope(project, everywhere))
    if as_json:
        print_json(found)
    elif not found.tokens:
        click.echo("No tokens. Make one: xmcloud token create NAME --role ROLE", err=True)
    else:
        now = rows.utc_now()
        told = [member_rows.token_row(each, now) for each in found.tokens]
        print_table(member_rows.TOKENS, told)


@token.command(short_help="Let a token open nothing any more.")
@click.argument("id", metavar="TOKEN_ID")
@json_option
def revoke(id: str, as_json: bool) -> None:
    """Let a token open nothing any more. Its id: xmcloud token list."""
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.identity_client import IdentityClient

    with IdentityClient.connected() as client:
        revoked = client.revoke_token(id)
    if as_json:
        print_json(revoked)
    else:
        click.echo(f"Token {revoked.id} ({revoked.name}): revoked")
