"""`xmcloud worker`."""

import click

from xmcloud.cli.worker_init import init
from xmcloud.cli.worker_install import install
from xmcloud.cli.worker_list import list_workers, show_worker
from xmcloud.cli.worker_orders import drain, resume, stop
from xmcloud.cli.worker_run import run_job
from xmcloud.cli.worker_start import start


@click.group(short_help="Start workers on this machine; see and steer all.")
def worker() -> None:
    """Set up and start workers on this machine; look at all that are connected, and steer them."""


for command in (
    *(start, init, install, run_job),
    *(list_workers, show_worker, drain, resume, stop),
):
    worker.add_command(command)
