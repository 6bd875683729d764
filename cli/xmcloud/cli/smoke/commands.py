"""The command line in a home of its own, so that nobody's login and worker are touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmcloud.cli.checks.line import Place
from xmcloud.cli.smoke.trying import Failed
from xmcloud.xm_cloud.credentials.login import LOGIN
from xmcloud.xm_cloud.places import address, home


@dataclass(frozen=True, slots=True)
class Commands:
    """`xmcloud ...` with that environment, in that folder."""

    folder: Path
    environ: Mapping[str, str]

    @classmethod
    def apart(cls, folder: Path, environ: Mapping[str, str]) -> "Commands":
        """In `folder`; with XMCLOUD_URL it keeps the login that there is."""
        own = folder / "home"
        own.mkdir(mode=0o700)
        login = home(environ) / LOGIN
        if environ.get("XMCLOUD_URL") and login.exists():
            shutil.copy(login, own)
        return cls(folder, {**environ, "XMCLOUD_HOME": str(own)})

    def __call__(self, *words: str, given: str = "", seconds: float = 60) -> str:
        """What it prints. Raises `Failed` with what it says when it fails."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "xmcloud.cli", *words],
                cwd=self.folder,
                env=dict(self.environ),
                input=given,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"`xmcloud {words[0]}` did not end within {seconds:g} s.") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            last = said[-1] if said else f"It ended with {done.returncode}."
            raise Failed(last.removeprefix("Error: "))
        return done.stdout

    def json(self, command: str, *words: str) -> Any:
        """What it prints as JSON."""
        return json.loads(self(command, "--json", *words))

    def place(self) -> Place:
        """The control plane that they speak to. Raises as `address`."""
        found = address(self.environ)
        return Place(found.url, found.credentials, found.source, found.identity)


def wanted_environment() -> dict[str, str]:
    """That of this process, without settings of a worker that is set up here."""
    return {k: v for k, v in os.environ.items() if not k.startswith("XMCLOUD_WORKER_")}
