"""The entry point of `xmcloud`. Nothing here imports more than click: see `lazy`."""

import click

from xmcloud.cli.exit_codes import MEANINGS, ExitCode, exit_code
from xmcloud.cli.failures import JSON, report
from xmcloud.cli.lazy import Lazy, LazyGroup
from xmcloud.core.errors import XmcloudError

COMMANDS = {
    "launch": Lazy("xmcloud.cli.launch:launch", "Run a launch script."),
    "run": Lazy("xmcloud.cli.run:run", "Run one command as an experiment."),
    "list": Lazy("xmcloud.cli.show:list_experiments", "List experiments, the newest first."),
    "show": Lazy("xmcloud.cli.show:show", "Show an experiment or a job."),
    "logs": Lazy("xmcloud.cli.output_log:logs", "Print the log of a job."),
    "download": Lazy("xmcloud.cli.download:download", "Fetch the files that a job stored."),
    "stop": Lazy("xmcloud.cli.act:stop", "Stop experiments or jobs."),
    "clone": Lazy("xmcloud.cli.clone:clone", "Copy an experiment or a job, with changes."),
    "diff": Lazy("xmcloud.cli.diff:diff", "Show what differs between two runs."),
    "repro": Lazy("xmcloud.cli.repro:repro", "Run the same again and check that it was the same."),
    "reset": Lazy("xmcloud.cli.act:reset", "Make drafts of finished experiments or jobs."),
    "enqueue": Lazy("xmcloud.cli.act:enqueue", "Queue drafts, stopped or failed jobs."),
    "dequeue": Lazy("xmcloud.cli.act:dequeue", "Take jobs out of their queue."),
    "queue": Lazy("xmcloud.cli.queue:queue", "Look at queues and arrange them."),
    "build": Lazy(
        "xmcloud.cli.build:build", "Look at builds of images and stop them; make one of a job."
    ),
    "target": Lazy("xmcloud.cli.target:target", "Look at the platforms that take jobs."),
    "usage": Lazy("xmcloud.cli.usage:usage", "Show what people run and used, beside their quotas."),
    "worker": Lazy(
        "xmcloud.cli.worker:worker", "Start workers on this machine; see and steer all."
    ),
    "up": Lazy("xmcloud.cli.plane:up", "Start a control plane and a worker on this machine."),
    "down": Lazy("xmcloud.cli.plane:down", "Stop what `up` started."),
    "status": Lazy("xmcloud.cli.plane:status", "Show what runs on this machine."),
    "doctor": Lazy(
        "xmcloud.cli.doctor:doctor", "Check this machine, the control plane and the way to it."
    ),
    "login": Lazy("xmcloud.cli.login:login", "Sign in to a control plane."),
    "logout": Lazy("xmcloud.cli.login:logout", "Forget who is signed in here."),
    "whoami": Lazy("xmcloud.cli.login:whoami", "Show who the control plane takes you for."),
    "project": Lazy("xmcloud.cli.project:project", "Make projects, and choose one."),
    "member": Lazy("xmcloud.cli.member:member", "Say who may do what."),
    "token": Lazy("xmcloud.cli.token:token", "Make tokens for machines, and revoke them."),
    "secret": Lazy("xmcloud.cli.secret:secret", "Keep secrets for the jobs of a project."),
    "audit": Lazy("xmcloud.cli.audit:audit", "Show who changed what."),
    "export": Lazy(
        "xmcloud.cli.export:export", "Write everything of the control plane into a file."
    ),
    "import": Lazy(
        "xmcloud.cli.import_:import_", "Fill an empty control plane from an exported file."
    ),
    "cluster": Lazy("xmcloud.cli.cluster:cluster", "Create and delete clusters on Google Cloud."),
    "completion": Lazy("xmcloud.cli.completion:completion", "Print a shell's completion script."),
}

_EPILOG = "\b\nExit status:\n" + "\n".join(f"  {code:3}  {MEANINGS[code]}" for code in MEANINGS)


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        from xmcloud.xm_cloud.tracing import command

        try:
            with command("xmcloud") as span:
                try:
                    return super().invoke(ctx)
                finally:
                    span.rename(" ".join(filter(None, ["xmcloud", ctx.invoked_subcommand])))
        except XmcloudError as error:
            report(error, as_json=ctx.meta.get(JSON, False))
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(ExitCode.INTERRUPTED)


@click.group(
    cls=_Root,
    lazy=COMMANDS,
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="xmcloud", prog_name="xmcloud")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Send experiments to your own machines, to the cloud or to this laptop, and track them.

    An ID is that of an experiment or a job, EXPERIMENT/3 for its unit 3, or the beginning of it.
    """
    if ctx.invoked_subcommand is None:
        from xmcloud.cli.welcome import welcome

        click.echo(welcome())


def main() -> None:
    """Run the command line; the exit status is one of `exit_codes`."""
    cli(prog_name="xmcloud")
