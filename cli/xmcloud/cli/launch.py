"""`xmcloud launch`."""

from collections.abc import Sequence

import click

from xmcloud.cli.options import dry_run_option, json_option

_OWN = ("--dry-run", "--json")


class _Launch(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Our options may also stand right behind the script."""
        script = next((at for at, word in enumerate(args) if not word.startswith("-")), len(args))
        end = script + 1
        while end < len(args) and args[end] in _OWN:
            end += 1
        moved = args[script + 1 : end]
        return super().parse_args(ctx, [*moved, *args[: script + 1], *args[end:]])


@click.command(
    cls=_Launch,
    short_help="Run a launch script.",
    context_settings={"allow_interspersed_args": False},
)
@dry_run_option
@json_option
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("flags", metavar="[-- FLAGS...]", nargs=-1, type=click.UNPROCESSED)
def launch(script: str, flags: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Run the `main` of a launch script, with the flags after `--` as its command line.

    Starts a control plane and a worker on this machine unless one is there, or XMCLOUD_URL names
    another. With --dry-run, shows the jobs that it would add, and sends nothing; --json is for that
    alone.
    """
    argv = flags[1:] if flags[:1] == ("--",) else flags
    if dry_run:
        _plan(script, argv, as_json)
    elif as_json:
        raise click.UsageError("--json shows the plan of a dry run; add --dry-run.")
    else:
        _launch(script, argv)


def _launch(script: str, argv: Sequence[str]) -> None:
    from xmcloud.cli.exit_codes import ExitCode
    from xmcloud.cli.messages import say
    from xmcloud.local.control import ensure_up
    from xmcloud.xm.status import ExperimentUnitError
    from xmcloud.xm_cloud import launcher

    ensure_up(say)
    try:
        launcher.launch(script, argv)
    except ExperimentUnitError as error:
        say(f"Error: {error}")
        raise click.exceptions.Exit(ExitCode.JOB_FAILED) from None


def _plan(script: str, argv: Sequence[str], as_json: bool) -> None:
    from contextlib import nullcontext, suppress

    from xmcloud.cli.dry_run import show_plan, stdout_on_stderr
    from xmcloud.xm_cloud import launcher
    from xmcloud.xm_cloud.planning.plan import plan_of
    from xmcloud.xm_cloud.planning.recorder import NotInADryRun, Recorder
    from xmcloud.xm_cloud.shared import standing_in

    recorder = Recorder()
    with (
        stdout_on_stderr() if as_json else nullcontext(),
        standing_in(recorder),
        suppress(NotInADryRun),
    ):
        launcher.launch(script, argv)
    show_plan(plan_of(recorder), as_json)
