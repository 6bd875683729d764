"""The programs that jobs of some kinds need."""

import re
import shutil
import subprocess
from collections.abc import Iterator

from xmcloud.cli.checks.check import Check

_OLDEST_GIT = (2, 35)
_SECONDS = 3
_MANAGERS = {
    "apt-get": "sudo apt-get install {}",
    "dnf": "sudo dnf install {}",
    "pacman": "sudo pacman -S {}",
    "apk": "sudo apk add {}",
    "brew": "brew install {}",
}


def check_git() -> Iterator[Check]:
    name, oldest = "git", ".".join(map(str, _OLDEST_GIT))
    said = _said("git", "--version")
    if said is None:
        detail = "is not installed, so jobs of git revisions will fail"
        yield Check.warning(name, detail, installing("git"))
        return
    found = re.search(r"\d+(?:\.\d+)+", said)
    version = found.group() if found else ""
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_GIT if version else True:
        yield Check.warning(name, f"{said} is older than {oldest}", installing("git"))
        return
    yield Check.ok(name, version)
    if (large := _said("git", "lfs", "version")) is None:
        detail = "is not installed, so jobs of repositories with large files will fail"
        yield Check.warning("git-lfs", detail, installing("git-lfs"))
    else:
        yield Check.ok("git-lfs", large.removeprefix("git-lfs/").split(" ")[0])


def check_uv() -> Iterator[Check]:
    import uv

    try:
        said = _said(uv.find_uv_bin(), "--version")
    except FileNotFoundError:
        said = None
    if said is None:
        detail = "is not there, so jobs with requirements will fail"
        yield Check.warning("uv", detail, "pip install --force-reinstall uv")
    else:
        yield Check.ok("uv", said.removeprefix("uv ").split(" ")[0])


def installing(package: str) -> str:
    """The command that installs it here."""
    commands = (command for name, command in _MANAGERS.items() if shutil.which(name))
    return next(commands, "Install the package {}.").format(package)


def _said(*argv: str) -> str | None:
    """The first line of what it prints; None if it does not run."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip().partition("\n")[0]
