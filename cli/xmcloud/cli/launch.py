"""`xmcloud launch`."""

import click


@click.command(
    short_help="Run a launch script.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("flags", metavar="[-- FLAGS...]", nargs=-1, type=click.UNPROCESSED)
def launch(script: str, flags: tuple[str, ...]) -> None:
    """Run the `main` of a launch script, with the flags after `--` as its command line.

    Starts a control plane and a worker on this machine unless one is there, or XMCLOUD_URL names
    another.
    """
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.messages import say
    from xmcloud.local.control import ensure_up
    from xmcloud.xm.status import ExperimentUnitError
    from xmcloud.xm_cloud import launcher

    ensure_up(say)
    try:
        launcher.launch(script, flags[1:] if flags[:1] == ("--",) else flags)
    except ExperimentUnitError as error:
        say(f"Error: {error}")
        raise click.exceptions.Exit(ExitCode.JOB_FAILED) from None
