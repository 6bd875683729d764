"""`xmcloud worker install`."""

from typing import TYPE_CHECKING

import click

from xmcloud.cli.options import json_option
from xmcloud.cli.worker_flags import name_option

if TYPE_CHECKING:
    from xmcloud.cli.worker_unit import Unit
    from xmcloud.worker.settings import WorkerSettings


@click.command(short_help="Let systemd run the worker of this machine.")
@name_option
@click.option("--system", is_flag=True, help="For the machine, not for this user; needs root.")
@click.option("--now", is_flag=True, help="Start it at once, and whenever the machine starts.")
@json_option
def install(name: str | None, system: bool, now: bool, as_json: bool) -> None:
    """Write a systemd unit that runs the worker of this machine and starts it again if it fails.

    The worker is the one that `xmcloud worker init` has set up in XMCLOUD_HOME. A unit that is
    there and differs stays as it is, and the difference is shown.
    """
    import os
    import shlex

    from xmcloud.cli.documents import Installed
    from xmcloud.cli.tables import print_json
    from xmcloud.cli.worker_unit import unit_of

    unit = unit_of(_settings(name), os.environ, system=system)
    if now:
        _refuse_without_systemd()
    written = _write(unit)
    if now:
        _run(unit)
    if as_json:
        print_json(Installed(path=unit.path, written=written, started=now))
        return
    click.echo(f"{'Wrote' if written else 'There already:'} {unit.path}")
    if not now:
        click.echo("Start it, now and with the machine:")
        for command in unit.commands():
            click.echo(f"  {shlex.join(command)}")
    journal = "journalctl" if system else "journalctl --user"
    click.echo(f"Its log: {journal} -fu {unit.name}")


def _settings(name: str | None) -> "WorkerSettings":
    """As the unit will find them, which has no more of this environment. Raises InvalidSettings."""
    import os

    from xmcloud.worker.settings import InvalidSettings, load_settings
    from xmcloud.xm_cloud.credentials.login import LOGIN

    folders = {key: os.environ.get(key, "") for key in ("XMCLOUD_HOME", "XMCLOUD_CACHE")}
    first = "Set it up first: xmcloud worker init"
    try:
        # Who installs it may be another user, who is not to read the token.
        settings = load_settings({"name": name, "token": "not read"}, folders)
    except InvalidSettings as error:
        raise InvalidSettings(error.detail, first) from None
    login = settings.home / LOGIN
    if not login.exists() and not (settings.home / "token").exists():
        raise InvalidSettings(f"There is no token in {settings.home}.", first)
    return settings


def _write(unit: "Unit") -> bool:
    """False if it is there already. Raises UnitDiffers and UnitNotWritten."""
    import os

    from xmcloud.cli.worker_unit import UnitDiffers, UnitNotWritten

    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        with unit.path.open("x", encoding="utf-8") as file:
            file.write(unit.text)
    except FileExistsError:
        present = unit.path.read_text(encoding="utf-8")
        if present == unit.text:
            return False
        raise UnitDiffers(unit, present) from None
    except OSError as error:
        raise UnitNotWritten(unit, os.strerror(error.errno or 0)) from error
    return True


def _refuse_without_systemd() -> None:
    from xmcloud.cli.worker_unit import has_systemd
    from xmcloud.core.errors import Unavailable

    if not has_systemd():
        raise Unavailable("systemd does not run on this machine.", "Leave out --now.")


def _run(unit: "Unit") -> None:
    import subprocess

    from xmcloud.core.errors import Unavailable

    for command in unit.commands():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
