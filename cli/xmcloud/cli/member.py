"""`xmcloud member`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_members
from xmcloud.cli.options import everywhere_option, json_option, project_option, scope

if TYPE_CHECKING:
    from xmcloud.core.identity import Member

_name = click.argument("name", metavar="NAME", shell_complete=complete_members)


@click.group(short_help="Say who may do what.")
def member() -> None:
    """Say who may do what. A NAME is the e-mail address of a person or a service account."""


@member.command("list", short_help="List who has a role.")
@project_option
@everywhere_option
@json_option
def list_members(project: str | None, everywhere: bool, as_json: bool) -> None:
    """List who has a role in the project or everywhere."""
    from xmcloud.cli import member_rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.identity_client import IdentityClient

    where = scope(project, everywhere)
    with IdentityClient.connected() as client:
        found = client.members(where)
    if as_json:
        print_json(found)
    elif not found.members:
        click.echo("Nobody has a role there but the admins of the deployment.", err=True)
    else:
        told = [row for each in found.members for row in member_rows.member_rows(each, where)]
        print_table(member_rows.MEMBERS, told)


@member.command("set", short_help="Give somebody a role.")
@_name
@click.argument("role", type=click.Choice(["viewer", "member", "operator", "admin", "worker"]))
@project_option
@everywhere_option
@json_option
def set_role(name: str, role: str, project: str | None, everywhere: bool, as_json: bool) -> None:
    """Give somebody a role in the project, in place of any before.

    A viewer reads. A member launches, and changes what is his. An operator changes what is of
    others too. An admin decides who is what. A worker takes jobs, and is one --everywhere.
    """
    from xmcloud.core.identity import Role
    from xmcloud.xm_cloud.identity_client import IdentityClient

    where = scope(project, everywhere)
    with IdentityClient.connected() as client:
        _tell(client.set_role(where, name, Role(role)), as_json)


@member.command(short_help="Take somebody's role away.")
@_name
@project_option
@everywhere_option
@json_option
def remove(name: str, project: str | None, everywhere: bool, as_json: bool) -> None:
    """Take somebody's role in the project away, or with --everywhere that for all projects."""
    from xmcloud.xm_cloud.identity_client import IdentityClient

    where = scope(project, everywhere)
    with IdentityClient.connected() as client:
        _tell(client.remove_role(where, name), as_json)


def _tell(changed: "Member", as_json: bool) -> None:
    from xmcloud.cli.member_rows import roles
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(changed)
    else:
        click.echo(f"{changed.name}: {roles(changed.roles) or 'no role'}")
