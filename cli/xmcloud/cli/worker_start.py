"""`xmcloud worker start`."""

from typing import TYPE_CHECKING, Any

import click

from xmcloud.cli.complete import complete_pools
from xmcloud.cli.options import json_option
from xmcloud.cli.worker_flags import gpus_option, name_option, queue_flags, weighted_queues_option

if TYPE_CHECKING:
    from xmcloud.worker.settings import WorkerSettings


@click.command(short_help="Take jobs from queues and run them here.")
@name_option
@click.option("--pool", shell_complete=complete_pools, help="The pool it belongs to.  [local]")
@weighted_queues_option
@click.option(
    "--order",
    type=click.Choice(["strict", "fair"]),
    help="strict: the first queue first; fair: in turn, by weight.  [strict]",
)
@click.option("--slots", type=click.IntRange(1, 1000), help="Jobs at once.  [1]")
@gpus_option
@click.option("--hours", metavar="HOURS", help="When to take jobs, as 'mon-fri 20:00-08:00, sat'.")
@click.option("--address", help="Where workers of other machines reach its jobs.")
@click.option("--background", is_flag=True, help="Leave it running; return once it is connected.")
@json_option
def start(
    queues: tuple[str, ...], order: str | None, background: bool, as_json: bool, **own: Any
) -> None:
    """Take jobs from queues and run them here, until Ctrl-C or SIGTERM.

    Then it gives the jobs under way back to their queues. A flag wins over the environment
    (XMCLOUD_WORKER_NAME, _POOL, _QUEUES, _SLOTS, ...), that over worker.json in XMCLOUD_HOME.
    """
    import os

    from xmcloud.worker.settings import load_settings

    settings = load_settings({**own, **queue_flags(queues, order)}, os.environ)
    if background:
        _in_background(settings, _flags(queues, order, own), as_json)
    else:
        _in_foreground(settings)


def _flags(queues: tuple[str, ...], order: str | None, own: dict[str, Any]) -> list[str]:
    """The command line that says the same again."""
    given = {**own, "order": order}
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return [*flags, *(f"--queue={queue}" for queue in queues)]


def _in_foreground(settings: "WorkerSettings") -> None:
    import os

    from xmcloud.core.logs import set_up
    from xmcloud.worker.main import run

    set_up(os.environ, "xmcloud-worker", "text")
    run(settings)


def _in_background(settings: "WorkerSettings", flags: list[str], as_json: bool) -> None:
    from xmcloud.cli.documents import Background
    from xmcloud.cli.tables import print_json
    from xmcloud.cli.worker_background import start_worker

    record = start_worker(settings, flags)
    name, url = settings.name, settings.url
    if as_json:
        print_json(Background(name=name, url=url, pid=record.pid, log=record.log))
        return
    click.echo(f"Worker {name} is connected to {url} (process {record.pid}).")
    click.echo(f"Its log: {record.log}")
    click.echo(f"To stop it: xmcloud worker stop {name}")
