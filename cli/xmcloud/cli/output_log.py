"""`xmcloud logs`."""

import click

from xmcloud.cli.options import Reference, id_argument, json_option


@click.command(short_help="Print the log of a job.")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on until the job is over.")
@id_argument
@json_option
def logs(reference: Reference, following: bool, as_json: bool) -> None:
    """Print what the newest attempt of a job has written: stdout and stderr together.

    Progress bars are reduced to their last state. --json prints the job instead, and the log on
    stderr.
    """
    import sys

    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.follow import follow, print_log
    from xmcloud.cli.messages import say
    from xmcloud.cli.resolve import find_job
    from xmcloud.cli.tables import print_json
    from xmcloud.xm_cloud.client import connect

    stream = sys.stderr if as_json else sys.stdout
    with connect() as client:
        job = find_job(client, reference)
        if not job.attempts:
            say(f"Job {reference} is {job.state}; it has written nothing yet.")
        if not following:
            print_log(client, job, stream)
        else:
            try:
                job = follow(client, job, stream)
            except KeyboardInterrupt:
                say(f"\nNo longer following; job {reference} goes on.")
                raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        print_json(job)
