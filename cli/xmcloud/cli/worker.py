"""`xmcloud worker`."""

import click

from xmcloud.cli.complete import complete_pools, complete_queues
from xmcloud.cli.options import json_option


@click.group(short_help="Start a worker on this machine; list workers.")
def worker() -> None:
    """Start a worker on this machine; list workers."""


@worker.command("start", short_help="Take jobs from queues and run them here.")
@click.option("--name", help="By default that of this machine.")
@click.option("--pool", shell_complete=complete_pools, help="The pool it belongs to.  [local]")
@click.option(
    "--queue",
    "queues",
    metavar="QUEUE",
    multiple=True,
    shell_complete=complete_queues,
    help="A queue to take from; several in order of preference.  [high, default, low]",
)
@click.option("--slots", type=click.IntRange(1, 1000), help="Jobs at once.  [1]")
@click.option("--address", help="Where workers of other machines reach its jobs.")
def start(
    name: str | None,
    pool: str | None,
    queues: tuple[str, ...],
    slots: int | None,
    address: str | None,
) -> None:
    """Take jobs from queues and run them here, until Ctrl-C or SIGTERM.

    Then it gives the jobs under way back to their queues. A flag wins over the environment
    (XMCLOUD_WORKER_NAME, _POOL, _QUEUES, _SLOTS, _ADDRESS), that over worker.json in XMCLOUD_HOME.
    """
    import logging
    import os

    from xmcloud.worker.main import run
    from xmcloud.worker.settings import load_settings

    flags = {
        "name": name,
        "pool": pool,
        "queues": queues or None,
        "slots": slots,
        "address": address,
    }
    settings = load_settings(flags, os.environ)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("xmcloud").setLevel(logging.INFO)
    run(settings)


@worker.command("list", short_help="List the workers that are connected.")
@json_option
def list_workers(as_json: bool) -> None:
    """List the workers that are connected."""
    from xmcloud.cli import rows
    from xmcloud.cli.tables import print_json, print_table
    from xmcloud.xm_cloud.client import connect

    with connect() as client:
        sessions = client.workers()
    if as_json:
        print_json(sessions)
    elif not sessions.sessions:
        click.echo("No worker is connected. Start one: xmcloud worker start", err=True)
    else:
        now = rows.utc_now()
        print_table(rows.WORKERS, [rows.worker_row(each, now) for each in sessions.sessions])
