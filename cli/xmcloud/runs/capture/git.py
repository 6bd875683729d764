"""Git as a program with nobody's preferences: what it prints is the same on every machine."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 120.0
"""How long one git command may take."""

_SETTINGS = {
    "color.ui": "false",
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "true",
    "core.safecrlf": "false",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "diff.algorithm": "myers",
    "diff.context": "3",
    "diff.ignoreSubmodules": "none",
    "diff.indentHeuristic": "true",
    "diff.interHunkContext": "0",
    "diff.relative": "false",
    "diff.suppressBlankEmpty": "false",
    "status.relativePaths": "false",
}
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


class GitFailed(Exception):
    """Git is missing, or refused. Says why in a line."""


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in a folder; `variables` are set over its neutral environment."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, given: bytes = b"") -> bytes:
        """What it prints. Raises `GitFailed`."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.folder), *arguments],
                input=given,
                capture_output=True,
                env=neutral(os.environ) | dict(self.variables),
                timeout=SECONDS,
                check=True,
            )
        except FileNotFoundError:
            raise GitFailed("git is not installed") from None
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {arguments[0]} took longer than {SECONDS:g} s") from None
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            raise GitFailed(said[-1] if said else f"git {arguments[0]} failed") from None
        return done.stdout

    def line(self, *arguments: str) -> str:
        """The one line that it prints; '' when it fails."""
        try:
            return os.fsdecode(self(*arguments)).removesuffix("\n")
        except GitFailed:
            return ""

    def parts(self, *arguments: str) -> list[str]:
        """What it prints with NUL after each. Raises `GitFailed`."""
        return os.fsdecode(self(*arguments)).split("\0")[:-1]


def neutral(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what a hook or a person set for git; ignore files and trust stay the person's."""
    own = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    settings = {
        f"GIT_CONFIG_{part}_{number}": text
        for number, setting in enumerate(_SETTINGS.items())
        for part, text in zip(("KEY", "VALUE"), setting, strict=True)
    }
    count = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return own | settings | count | quiet
