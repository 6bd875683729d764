"""`xmcloud queue`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_queues
from xmcloud.cli.options import Reference, id_argument, json_option

if TYPE_CHECKING:
    from xmcloud.core.models import QueueState

_name = click.argument("name", metavar="QUEUE", shell_complete=complete_queues)


@click.group(short_help="Look at queues and arrange them.")
def queue() -> None:
    """Look at queues and arrange them. A worker takes from its queues in the order it names."""


@queue.command("list", short_help="List queues and what waits in them.")
@json_option
def list_queues(as_json: bool) -> None:
    """List queues and what waits in them."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.core.protocol import Queues
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        queues = client.queues()
    if as_json:
        print_json(Queues(queues=queues))
        return
    now = rows.utc_now()
    print_table(rows.QUEUES, [rows.queue_row(each, now) for each in queues])


@queue.command("show", short_help="Show what waits in a queue, in order.")
@_name
@json_option
def show_queue(name: str, as_json: bool) -> None:
    """Show what waits in a queue, in the order in which it is served."""
    from xmcloud.cli import rows
    from xmcloud.cli.documents import QueueDocument
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        status = client.queue(name)
        jobs = list(client.queue_jobs(name))
    if as_json:
        print_json(QueueDocument.model_validate({**dict(status), "jobs": jobs}))
        return
    now = rows.utc_now()
    print_table(rows.QUEUES, [rows.queue_row(status, now)])
    if jobs:
        click.echo()
        places = enumerate(jobs, start=1)
        print_table(rows.WAITING, [rows.waiting_row(place, job, now) for place, job in places])


@queue.command("move", short_help="Move a waiting job.")
@id_argument
@click.argument("to", type=click.Choice(["front", "back", "up", "down"]), default="back")
@click.option(
    "--queue", "name", metavar="QUEUE", shell_complete=complete_queues, help="To another queue."
)
@json_option
def move(reference: Reference, to: str, name: str | None, as_json: bool) -> None:
    """Move a waiting job within its queue, or with --queue to a place in another one."""
    from xmcloud.cli.failures import parsing
    from xmcloud.cli.resolve import find_job
    from xmcloud.cli.rows import full_reference
    from xmcloud.cli.tables import print_json
    from xmcloud.core.protocol import Move
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with parsing():
        order = Move.model_validate({"by": user(), "to": to, "queue": name})
    with connect() as client:
        job = client.move_job(find_job(client, reference).id, order)
    if as_json:
        print_json(job)
    else:
        click.echo(f"{full_reference(job)}  {job.name}: in queue {job.queue}")


@queue.command("pause", short_help="Let nothing more start from a queue.")
@_name
@json_option
def pause(name: str, as_json: bool) -> None:
    """Let nothing more start from a queue; what runs goes on."""
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        _tell(client.pause_queue(name, Act(by=user())), as_json)


@queue.command("resume", short_help="Serve a paused queue again.")
@_name
@json_option
def resume(name: str, as_json: bool) -> None:
    """Serve a paused queue again."""
    from xmcloud.core.protocol import Act
    from xmcloud.xm_cloud.client import connect
    from xmcloud.xm_cloud.identity import user

    with connect() as client:
        _tell(client.resume_queue(name, Act(by=user())), as_json)


@queue.command("create", short_help="Create a queue.")
@click.argument("name", metavar="QUEUE")
@click.option(
    "--priority",
    type=click.IntRange(0, 1000),
    default=50,
    show_default=True,
    help="Higher is served first.",
)
@json_option
def create(name: str, priority: int, as_json: bool) -> None:
    """Create a queue. Workers serve it once they are started with --queue QUEUE."""
    from xmcloud.cli.failures import parsing
    from xmcloud.core.protocol import NewQueue
    from xmcloud.xm_cloud.client import connect

    with parsing():
        new = NewQueue(name=name, priority=priority)
    with connect() as client:
        _tell(client.create_queue(new), as_json)


def _tell(state: "QueueState", as_json: bool) -> None:
    from xmcloud.cli.tables import print_json

    if as_json:
        print_json(state)
    else:
        paused = "paused" if state.paused else "open"
        click.echo(f"Queue {state.name}: {paused}, priority {state.priority}")
