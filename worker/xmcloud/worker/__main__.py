"""`python -m xmcloud.worker`: one worker in the foreground."""

import os

import click

from xmcloud.core.errors import XmcloudError
from xmcloud.core.logs import set_up
from xmcloud.worker.main import run
from xmcloud.worker.settings import load_settings


@click.command()
@click.option("--url", help="Address of the control plane.")
@click.option("--name", help="Name of this worker; the machine's name by default.")
@click.option("--pool", help="Pool of workers that it belongs to.")
@click.option("--queues", help="Queues to serve, the preferred first: high,default,low.")
@click.option("--slots", type=int, help="Jobs to run at the same time.")
@click.option("--gpus", help="GPUs for jobs: all, none, or numbers and UUIDs: 0,1.")
@click.option("--address", help="Where workers of other machines reach its jobs.")
@click.option("--home", help="Folder of its state.")
@click.option("--cache", help="Folder of what jobs share.")
def main(**flags: object) -> None:
    """Run jobs from queues until told to stop."""
    try:
        set_up(os.environ, "xmcloud-worker", "text")
        run(load_settings(flags, os.environ))
    except XmcloudError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
