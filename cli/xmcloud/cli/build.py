"""`xmcloud build`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.core.builds import Build

_PAGE = 200


@click.group(short_help="Look at builds of images and stop them.")
def build() -> None:
    """Look at builds of images and stop them. The same content is built once."""


@build.command("list", short_help="List builds, the newest first.")
@click.option(
    "--limit", type=click.IntRange(1, _PAGE), default=20, show_default=True, help="How many."
)
@json_option
def list_builds(limit: int, as_json: bool) -> None:
    """List builds, the newest first."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = client.builds(limit)
    if as_json:
        print_json(found)
        return
    if not found.builds:
        click.echo("No images were built yet.", err=True)
        return
    now = rows.utc_now()
    print_table(rows.BUILDS, [rows.build_row(each, now) for each in found.builds])


@build.command("show", short_help="Show a build, with the end of its log if it failed.")
@click.argument("id", metavar="BUILD")
@json_option
def show_build(id: str, as_json: bool) -> None:
    """Show a build, with the end of its log if it failed."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_json
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        found = find_build(client.builds(_PAGE).builds, id)
    if as_json:
        print_json(found)
        return
    now = rows.utc_now()
    print_fields(
        [
            ("Build", found.id),
            ("State", rows.build_state(found)),
            ("Image", found.image or found.spec.push_image_tag or found.spec.name),
            ("Asked for", f"{rows.instant(found.created_at, now)} by {found.by}"),
            ("Step", found.step),
            ("Message", found.message),
            ("Log", found.url),
        ]
    )
    if found.tail:
        click.echo(f"\n{found.tail}")


@build.command("stop", short_help="Stop a build.")
@click.argument("id", metavar="BUILD")
@json_option
def stop_build(id: str, as_json: bool) -> None:
    """Stop a build. Jobs that wait for its image fail."""
    from xmcloud.cli.tables import print_json
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        stopped = client.stop_build(find_build(client.builds(_PAGE).builds, id).id, Act(by=user()))
    if as_json:
        print_json(stopped)
    else:
        click.echo(f"Build {stopped.id}: {stopped.state}")


def find_build(builds: "list[Build]", beginning: str) -> "Build":
    """The one whose id begins so, among the newest. Raises NotFound and Ambiguous."""
    from xmcloud.cli.resolve import Ambiguous
    from xmcloud.core.errors import NotFound

    found = [each for each in builds if each.id.startswith(beginning)]
    if not found:
        raise NotFound("build", beginning, "See them with `xmcloud build list`.")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} builds begin with {beginning}.", "Write more of the id.")
    return found[0]
