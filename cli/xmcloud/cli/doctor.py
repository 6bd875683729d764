"""`xmcloud doctor`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option

if TYPE_CHECKING:
    from xmcloud.cli.checks.running import Probe

_SECONDS = 4.0


@click.command(short_help="Check this machine, the control plane and the way to it.")
@json_option
def doctor(as_json: bool) -> None:
    """Check this machine, the control plane and the way to it, in five seconds at most.

    What is not well is told with what to do about it. Ends with status 1 if something failed. A
    warning is about what only some jobs need, or what may be meant so.
    """
    import os

    from xmcloud.cli.checks.check import Verdict
    from xmcloud.cli.checks.running import run
    from xmcloud.cli.checks.telling import Telling
    from xmcloud.cli.exit_codes import ExitCode

    telling = Telling(quiet=as_json)
    for section, check in run(_probes(os.environ), _SECONDS, telling.waits):
        telling.tell(section, check)
    telling.end()
    if telling.verdict is Verdict.FAILED:
        raise click.exceptions.Exit(ExitCode.UNWELL)


def _probes(environ: Mapping[str, str]) -> "list[Probe]":
    from xmcloud.cli.checks import engine, gpus, machine, plane, programs, worker
    from xmcloud.cli.checks.check import Verdict
    from xmcloud.cli.checks.running import Probe

    settings = machine.machine_settings(environ)
    here = {
        "xmcloud": machine.check_versions,
        "Home": lambda: machine.check_home(settings.home),
        "Disks": lambda: machine.check_disks(settings),
        "Cache": lambda: machine.check_cache(settings),
        "Open files": machine.check_open_files,
        "git": programs.check_git,
        "uv": programs.check_uv,
        "Containers": lambda: engine.check_engine(settings.container_host, environ),
        "GPUs": gpus.check_gpus,
    }
    return [
        *(Probe("This machine", name, look) for name, look in here.items()),
        Probe(plane.SECTION, "Answer", lambda: plane.check_plane(environ), Verdict.FAILED),
        Probe(worker.SECTION, "Settings", lambda: worker.check_worker(environ)),
    ]
