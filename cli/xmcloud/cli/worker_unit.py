"""The systemd unit of a worker."""

import os
import pwd
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from xmcloud.core.errors import XmcloudError
from xmcloud.worker.settings import WorkerSettings

_GRACE_LIMIT_SECONDS = 600
"""The longest that a job may ask for."""

_UNIT = """\
# Written by `xmcloud worker install`. After a change: {reload}
[Unit]
Description=xmcloud worker {name}
{after}StartLimitIntervalSec=0

[Service]
{user}ExecStart={command}
WorkingDirectory={home}
Environment={variables}
# More variables, such as XMCLOUD_GIT_TOKEN. Keep the file to yourself: chmod 600
EnvironmentFile=-{home}/worker.env
# Not after `xmcloud worker stop`, nor for settings or a token that starting again cannot mend.
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 5
# Only the worker is told to end, never its jobs: it stops them itself, or leaves them to their
# keepers, so that they outlive a worker that was killed and are found again by the next one.
KillMode=process
# Above the longest time that a job may have to end by itself.
TimeoutStopSec={timeout}

[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit file of the system, or of one user."""

    path: Path
    text: str
    system: bool

    @property
    def name(self) -> str:
        return self.path.name

    def commands(self) -> list[list[str]]:
        """What makes systemd run it, now and after each start of the machine."""
        systemctl = ["systemctl"] if self.system else ["systemctl", "--user"]
        start = [[*systemctl, "daemon-reload"], [*systemctl, "enable", "--now", self.name]]
        # Else the units of a user end when the user has logged out.
        return start if self.system else [*start, ["loginctl", "enable-linger"]]


class UnitDiffers(XmcloudError):
    """Another unit of that name is there, and stays."""

    slug, title, status = "unit-differs", "Another unit is there", 409

    def __init__(self, unit: Unit, present: str) -> None:
        old, new = present.splitlines(), unit.text.splitlines()
        lines = unified_diff(old, new, "present", "would be written", n=0, lineterm="")
        super().__init__(
            "\n".join([f"{unit.path} is there and differs:", *lines, ""]),
            "Remove it to have it written anew, or choose another --name.",
        )


class UnitNotWritten(XmcloudError):
    """The system does not let this user write it."""

    slug, title, status = "unit-not-written", "The unit cannot be written", 403

    def __init__(self, unit: Unit, why: str) -> None:
        super().__init__(
            f"{unit.path} cannot be written: {why}.",
            "Run it as root, with XMCLOUD_HOME set." if unit.system else "Make it writable.",
        )


def unit_of(settings: WorkerSettings, environment: Mapping[str, str], *, system: bool) -> Unit:
    """That runs this worker with this interpreter."""
    variables = {
        "XMCLOUD_HOME": str(settings.home),
        "XMCLOUD_CACHE": str(settings.cache),
        "PATH": environment.get("PATH", os.defpath),
    }
    command = [sys.executable, "-P", "-m", "xmcloud.cli", "worker", "start"]
    text = _UNIT.format(
        name=settings.name,
        home=_literal(str(settings.home)),
        command=" ".join(map(_argument, [*command, f"--name={settings.name}"])),
        variables=" ".join(_word(f"{name}={value}") for name, value in variables.items()),
        user=f"User={_owner(settings.home)}\n" if system else "",
        after="Wants=network-online.target\nAfter=network-online.target\n" if system else "",
        target="multi-user.target" if system else "default.target",
        reload=f"systemctl {'' if system else '--user '}daemon-reload",
        timeout=_GRACE_LIMIT_SECONDS + 60,
    )
    folder = Path("/etc/systemd/system") if system else _user_folder(environment)
    return Unit(folder / f"xmcloud-worker-{settings.name}.service", text, system)


def has_systemd() -> bool:
    """Whether it is in charge of this machine, not only installed."""
    return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def _user_folder(environment: Mapping[str, str]) -> Path:
    config = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "systemd" / "user"


def _owner(folder: Path) -> str:
    return pwd.getpwuid(folder.stat().st_uid).pw_name


def _literal(text: str) -> str:
    """`%` begins what systemd fills in."""
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """One of several on a line."""
    escaped = _literal(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if set(escaped) & set(" \t'\"\\;") else escaped


def _argument(text: str) -> str:
    """Of a command, where `$` begins a variable."""
    return _word(text.replace("$", "$$"))
