"""`xmcloud worker run`."""

import click

from xmcloud.cli.options import Reference, id_argument
from xmcloud.cli.worker_flags import gpus_option, name_option


@click.command("run", short_help="Run one job here, in the foreground, and end as it ends.")
@id_argument
@name_option
@gpus_option
def run_job(reference: Reference, name: str | None, gpus: str | None) -> None:
    """Run one job on this machine, wherever it waits, and end with its exit status.

    It may be a draft or over, unless it completed. Its output goes to this terminal and to its
    log. Ctrl-C stops it, and gives it back to its queue.
    """
    import os

    from xmcloud.cli.resolve import find_job
    from xmcloud.worker.client import Refused
    from xmcloud.worker.main import run_one
    from xmcloud.worker.settings import load_settings
    from xmcloud.xm_cloud.client import Client
    from xmcloud.xm_cloud.problems import error_of

    settings = load_settings({"name": name, "gpus": gpus}, os.environ)
    with Client(settings.url, settings.identity().credentials) as client:
        job = find_job(client, reference).id
    try:
        code = run_one(settings, job)
    except Refused as error:
        raise error_of(error.problem) from error
    raise click.exceptions.Exit(code)
