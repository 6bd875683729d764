"""`xmcloud project`."""

import click

from xmcloud.cli.complete import complete_projects
from xmcloud.cli.options import json_option

_name = click.argument("name", metavar="PROJECT", shell_complete=complete_projects)


@click.group(short_help="Make projects, and choose one.")
def project() -> None:
    """Make projects and choose one. Experiments and secrets belong to one; it has members."""


@project.command("list", short_help="List the projects that you may see.")
@json_option
def list_projects(as_json: bool) -> None:
    """List the projects that you may see; * marks the one of your commands."""
    from xmcloud.cli import member_rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.core.identity import DEFAULT_PROJECT
    from xmcloud.xm_cloud.identity_client import IdentityClient
    from xmcloud.xm_cloud.places import current_project

    with IdentityClient.connected() as client:
        found = client.projects()
    if as_json:
        print_json(found)
        return
    current = current_project() or DEFAULT_PROJECT
    told = [
        ["*" if each.name == current else "", *member_rows.project_row(each)]
        for each in found.projects
    ]
    print_table(("", *member_rows.PROJECTS), told)


@project.command(short_help="Make a project.")
@click.argument("name", metavar="PROJECT")
@json_option
def create(name: str, as_json: bool) -> None:
    """Make a project. Its first member: xmcloud member set NAME admin --project PROJECT."""
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.tables import print_json
    from xmcloud.core.member_protocol import NewProject
    from xmcloud.xm_cloud.identity_client import IdentityClient

    with parsing():
        new = NewProject(name=name)
    with IdentityClient.connected() as client:
        made = client.create_project(new)
    if as_json:
        print_json(made)
    else:
        click.echo(f"Project {made.name}: made. Use it: xmcloud project use {made.name}")


@project.command(short_help="Choose the project of your commands.")
@_name
def use(name: str) -> None:
    """Choose the project of your commands, as long as you are signed in; XMCLOUD_PROJECT wins."""
    import os
    from dataclasses import replace

    from xmcloud.core.errors import NotFound, Unauthorized
    from xmcloud.xm_cloud.credentials.login import keep_login, read_login
    from xmcloud.xm_cloud.identity_client import IdentityClient
    from xmcloud.xm_cloud.places import home

    login = read_login(home())
    if login is None:
        raise Unauthorized("Nobody is signed in here.", f"export XMCLOUD_PROJECT={name}")
    with IdentityClient.connected() as client:
        known = {each.name for each in client.projects().projects}
    if name not in known:
        raise NotFound("project", name, "See those that there are: xmcloud project list")
    keep_login(home(), replace(login, project=name))
    click.echo(f"Project of your commands: {name}")
    if other := os.environ.get("XMCLOUD_PROJECT"):
        click.echo(f"But XMCLOUD_PROJECT is set: it is {other}", err=True)


_LIMIT = "A number, or none."


def _limit(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """`none` for no limit; None is what was not given."""
    if value is None or value == "none":
        return value
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise click.BadParameter("must be a number from 0 on, or none", ctx, param)
    return number


@project.command(short_help="Show the limits of a project, or set them.")
@_name
@click.option("--running", callback=_limit, help=f"Jobs that run at a time. {_LIMIT}")
@click.option("--queued", callback=_limit, help=f"Jobs that wait at a time. {_LIMIT}")
@click.option("--gpu-hours", callback=_limit, help=f"In a month of UTC. {_LIMIT}")
@click.option("--person", is_flag=True, help="The limits of each person, not of all together.")
@json_option
def quota(
    name: str,
    running: float | str | None,
    queued: float | str | None,
    gpu_hours: float | str | None,
    person: bool,
    as_json: bool,
) -> None:
    """Show the limits of a project, or set those that are given."""
    from xmcloud.cli import member_rows
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.tables import print_fields, print_json
    from xmcloud.core.errors import NotFound
    from xmcloud.core.identity import Quota
    from xmcloud.core.member_protocol import EditProject
    from xmcloud.xm_cloud.identity_client import IdentityClient

    given = {"running": running, "queued": queued, "gpu_hours": gpu_hours}
    changes = {key: None if value == "none" else value for key, value in given.items() if value}
    changes |= {key: 0 for key, value in given.items() if value == 0}
    field = "person_quota" if person else "quota"
    with IdentityClient.connected() as client:
        found = {each.name: each for each in client.projects().projects}.get(name)
        if found is None:
            raise NotFound("project", name, "See those that there are: xmcloud project list")
        if changes:
            before: Quota = getattr(found, field)
            with parsing():
                edit = EditProject.model_validate({field: before.evolve(**changes)})
            found = client.edit_project(name, edit)
    if as_json:
        print_json(found)
    else:
        print_fields(
            [
                ("Project", found.name),
                ("Together", member_rows.quota(found.quota)),
                ("Each person", member_rows.quota(found.person_quota)),
            ]
        )
