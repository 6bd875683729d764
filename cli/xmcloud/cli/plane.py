"""`xmcloud up|down|status`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.local.control import LocalPlane
    from xmcloud.local.status import Status


def _plane() -> "LocalPlane":
    from xmcloud.cli.messages import say
    from xmcloud.local.control import LocalPlane
    from xmcloud.local.home import Home
    from xmcloud.xm_cloud.places import home

    return LocalPlane(Home(home()), say)


@click.command(short_help="Start a control plane and a worker on this machine.")
@click.option("--emulators", is_flag=True, help="Store in Google's emulators (in memory).")
@click.option(
    "--stand-ins", is_flag=True, help="Rehearse Vertex AI and Cloud Build on this machine."
)
@click.option("--registry", default="", help="HOST:PORT for the images of the rehearsal.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="To listen on; else that of the last time."
)
@click.option(
    "--slots", type=click.IntRange(1, 1000), help="Jobs at once; else one for each processor."
)
@json_option
def up(
    emulators: bool,
    stand_ins: bool,
    registry: str,
    port: int | None,
    slots: int | None,
    as_json: bool,
) -> None:
    """Start a control plane and a worker on this machine, or what is missing of them.

    They listen on 127.0.0.1 alone and stay until `xmcloud down`. No cloud account is needed.
    """
    import os

    from xmcloud.cli.tables import print_json
    from xmcloud.local.control import Wanted
    from xmcloud.local.status import look
    from xmcloud.xm_cloud.places import named_elsewhere

    plane = _plane()
    started = plane.up(Wanted(port, slots, emulators, stand_ins, registry))
    if as_json:
        print_json(look(plane))
        return
    control = plane.home.control()
    assert control is not None
    click.echo(f"Started: {', '.join(started)}" if started else "It runs already.")
    click.echo(f"Listens on {control.url}; logs are in {plane.home.path / 'logs'}")
    if url := os.environ.get("XMCLOUD_URL"):
        click.echo(f"But XMCLOUD_URL is set: commands here go to {url}", err=True)
    elif url := named_elsewhere():
        click.echo(
            f"But you are signed in: commands here go to {url}, unless XMCLOUD_URL={control.url}",
            err=True,
        )


@click.command(short_help="Stop what `up` started.")
@json_option
def down(as_json: bool) -> None:
    """Stop the worker, the control plane and the emulators of this machine.

    Jobs under way are stopped and given back to their queues; they start again after the next
    `xmcloud up`.
    """
    from xmcloud.cli.documents import Stopped
    from xmcloud.cli.tables import print_json

    stopped = _plane().down()
    if as_json:
        print_json(Stopped(stopped=stopped))
        return
    click.echo(f"Stopped: {', '.join(stopped)}" if stopped else "Nothing was running.")


@click.command(short_help="Show what runs on this machine.")
@json_option
def status(as_json: bool) -> None:
    """Show what runs on this machine and what waits in the queues.

    Ends with status 4 when the control plane does not answer.
    """
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.tables import print_json
    from xmcloud.local.status import look

    found = look(_plane())
    if as_json:
        print_json(found)
    else:
        _print(found)
    if found.version is None:
        raise click.exceptions.Exit(ExitCode.UNREACHABLE)


def _print(found: "Status") -> None:
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_table

    now = rows.utc_now()
    answers = "answers" if found.version else "does not answer; start it: xmcloud up"
    print_fields(
        [
            ("Control plane", f"{found.url}, {answers}" if found.url else "none; xmcloud up"),
            ("Home", str(found.home)),
        ]
    )
    if found.parts:
        click.echo()
        print_table(rows.PARTS, [rows.part_row(part, now) for part in found.parts])
    if found.queues:
        click.echo()
        print_table(rows.QUEUES, [rows.queue_row(each, now) for each in found.queues])
