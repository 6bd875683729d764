"""`xmcloud worker drain|resume|stop`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option
from xmcloud.cli.worker_list import connected_to, worker_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from xmcloud.core.models import Session
    from xmcloud.xm_cloud.client import Client


@click.command(short_help="Let a worker finish what it runs and take no more.")
@worker_argument
@json_option
def drain(name: str, as_json: bool) -> None:
    """Let a worker finish what it runs and take no more, until it is resumed."""
    _order(name, as_json, lambda client: client.drain_worker(name))


@click.command(short_help="Let a drained worker take jobs again.")
@worker_argument
@json_option
def resume(name: str, as_json: bool) -> None:
    """Let a drained worker take jobs again."""
    _order(name, as_json, lambda client: client.resume_worker(name))


@click.command(short_help="Stop a worker; its jobs go back to their queues.")
@worker_argument
@json_option
def stop(name: str, as_json: bool) -> None:
    """Stop a worker wherever it runs. It stops its jobs, which go back to their queues, and ends.

    To let them finish first: xmcloud worker drain NAME
    """
    _order(name, as_json, lambda client: client.stop_worker(name))


def _order(name: str, as_json: bool, give: "Callable[[Client], Session]") -> None:
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.client import connect

    with connect() as client, connected_to(client, name):
        running = len(client.worker(name).jobs)
        session = give(client)
    if as_json:
        print_json(session)
    else:
        click.echo(_told(session, running))


def _told(session: "Session", running: int) -> str:
    from xmcloud.core.models import Wanted

    name = session.worker
    jobs = "1 job" if running == 1 else f"{running} jobs"
    match session.wanted:
        case Wanted.DRAIN:
            first = f"finishes {jobs} and takes no more" if running else "takes no more jobs"
            return f"Worker {name} {first}. To let it again: xmcloud worker resume {name}"
        case Wanted.RUN:
            return f"Worker {name} takes jobs."
    back = f", which gives {jobs} back to their queues" if running else ""
    return f"Worker {name} is told to stop{back}."
