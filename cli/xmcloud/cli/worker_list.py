"""`xmcloud worker list|show`."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from xmcloud.cli.complete import complete_workers
from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xmcloud.core.protocol import WorkerStatus
    from xmcloud.xm_cloud.client import Client

_AT_ONCE = 8
_NONE = "No worker is connected. Start one: xmcloud worker start"

worker_argument = click.argument("name", metavar="NAME", shell_complete=complete_workers)


@contextmanager
def connected_to(client: "Client", name: str) -> "Iterator[None]":
    """What is asked of a worker in here is refused with the names of those that are connected."""
    from xmcloud.core.errors import NotFound

    try:
        yield
    except NotFound:
        names = sorted({each.worker for each in client.workers().sessions})
        told = f"Connected: {', '.join(names)}." if names else _NONE
        raise NotFound("connected worker", name, told) from None


@click.command("list", short_help="List the workers that are connected.")
@json_option
def list_workers(as_json: bool) -> None:
    """List the workers that are connected, and what people want of them."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        sessions = client.workers()
        if as_json:
            print_json(sessions)
            return
        found = _statuses(client, [each.worker for each in sessions.sessions])
    if not found:
        click.echo(_NONE, err=True)
        return
    now = rows.utc_now()
    told = [rows.worker_row(each.session, len(each.jobs), now) for each in found]
    print_table(rows.WORKERS, told)


@click.command("show", short_help="Show a worker: what it runs, has and uses.")
@worker_argument
@json_option
def show_worker(name: str, as_json: bool) -> None:
    """Show what a worker runs, what is free of its machine, and what that used lately."""
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.client import connect

    with connect() as client, connected_to(client, name):
        status = client.worker(name)
    if as_json:
        print_json(status)
    else:
        _show(status)


def _statuses(client: "Client", names: list[str]) -> "list[WorkerStatus]":
    """Of those that are still there."""
    from concurrent.futures import ThreadPoolExecutor

    from xmcloud.core.errors import NotFound

    def ask(name: str) -> "WorkerStatus | None":
        try:
            return client.worker(name)
        except NotFound:
            return None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(ask, sorted(set(names)))
        return [status for status in answers if status is not None]


def _show(status: "WorkerStatus") -> None:
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_fields, print_statistics, print_table
    from xmcloud.xm_cloud.times import age

    session, now = status.session, rows.utc_now()
    jobs = sorted(status.jobs, key=lambda job: job.attempts[-1].claimed_at)
    print_fields(
        [
            ("Worker", session.worker),
            ("State", rows.worker_state(session, len(jobs))),
            ("Takes no jobs", session.takes_nothing),
            ("Pool", session.pool),
            ("Queues", ", ".join(session.queues)),
            ("Resources", rows.free_resources(session, jobs)),
            ("GPUs", ", ".join(session.gpus)),
            ("Host", session.host),
            ("Address", session.address if session.address != session.host else ""),
            ("Version", session.version),
            ("Connected", rows.instant(session.opened_at, now)),
            ("Last seen", age(session.renewed_at, now)),
        ]
    )
    if jobs:
        click.echo()
        print_table(rows.HELD, [rows.held_row(job, now) for job in jobs])
    if status.statistics is not None:
        tops = {"memory-bytes": session.resources.get("memory", 0.0)}
        print_statistics(status.statistics, tops)
