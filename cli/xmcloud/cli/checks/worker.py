"""The worker that was set up on this machine."""

import shlex
import subprocess
from collections.abc import Iterator, Mapping

from xmcloud.cli.checks.check import Check
from xmcloud.cli.worker_unit import Unit, has_systemd, unit_of
from xmcloud.core.errors import XmcloudError
from xmcloud.worker.gpus import ask_driver, chosen
from xmcloud.worker.settings import WorkerSettings, load_settings
from xmcloud.xm_cloud.places import home

SECTION = "Worker of this machine"
_SECONDS = 3


def check_worker(environ: Mapping[str, str]) -> Iterator[Check]:
    """Nothing where none was set up."""
    path = home(environ).absolute() / "worker.json"
    if not path.exists():
        return
    try:
        settings = load_settings({}, environ)
        if settings.gpus.names:
            chosen(ask_driver(), settings.gpus, environ)
    except XmcloudError as error:
        remedy = f"Correct it in {path}, or where a variable of the environment says so."
        yield Check.failed("Settings", error.detail, remedy)
        return
    except OSError as error:
        yield Check.failed("Settings", f"{path} cannot be read: {error.strerror}", f"ls -l {path}")
        return
    yield Check.ok("Settings", f"{path}: {settings.name}, pool {settings.pool}")
    yield from _check_unit(settings, environ)


def _check_unit(settings: WorkerSettings, environ: Mapping[str, str]) -> Iterator[Check]:
    name = "Service"
    if not has_systemd():
        yield Check.ok(name, "systemd does not run here")
        return
    units = [unit_of(settings, environ, system=system) for system in (False, True)]
    unit = next((each for each in units if each.path.exists()), None)
    if unit is None:
        detail = "systemd does not start it with the machine"
        yield Check.warning(name, detail, "xmcloud worker install --now")
    else:
        yield _unit_check(name, unit)


def _unit_check(name: str, unit: Unit) -> Check:
    user = [] if unit.system else ["--user"]
    asked = ["systemctl", *user, "is-active", unit.name]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_SECONDS)
    state = done.stdout.strip() or done.stderr.strip()
    detail = f"{unit.name} is {state}"
    if state in ("active", "activating", "reloading"):
        return Check.ok(name, detail)
    if state == "failed":
        return Check.failed(name, detail, shlex.join(["journalctl", *user, "-eu", unit.name]))
    return Check.warning(name, detail, "; ".join(map(shlex.join, unit.commands())))
