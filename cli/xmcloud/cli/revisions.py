"""Git commits by the names that people give them, as this machine or the remote knows them."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.core.repositories import Repository

SECONDS = 60.0
_FULL = re.compile(r"[0-9a-f]{40}")
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "LC_ALL": "C",
}
"""Git asks nobody anything; without a terminal of its own, ssh neither."""


class CannotAskRemote(XmcloudError):
    """Git cannot read the repository from here."""

    slug, title, status = "cannot-ask-remote", "Cannot ask the remote", 409


class Found(NamedTuple):
    """The full id of a commit, and who told it."""

    commit: str
    by: str


def full_commit(revision: str, repository: str, folder: Path) -> Found:
    """Of a branch, a tag or the beginning of an id.

    From the checkout around the folder if it is one of that repository, else from the remote.
    Raises `InvalidInput` and `CannotAskRemote`.
    """
    if _FULL.fullmatch(revision):
        return Found(revision, "")
    remotes = _remotes(folder, repository)
    here = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^0")
    if remotes and here:
        _check_pushed(folder, here, remotes, revision, repository)
        return Found(here, "this checkout")
    tips = _tips(repository, folder)
    found = _of_tips(revision, tips)
    if len(found) != 1:
        raise InvalidInput("commit", revision, _expected(repository, len(found)))
    return Found(found.pop(), repository)


def distance(a: str, b: str, folder: Path) -> str:
    """How many commits only one of the two has; '' where they are not known here."""
    counted = _git(folder, "rev-list", "--left-right", "--count", f"{a}...{b}", "--")
    if not counted:
        return ""
    behind, ahead = counted.split()
    words = [f"{ahead} ahead"] if ahead != "0" else []
    return ", ".join([*words, f"{behind} behind"] if behind != "0" else words)


def _remotes(folder: Path, repository: str) -> list[str]:
    """The names that the checkout has for the repository."""
    lines = _git(folder, "config", "--get-regexp", r"^remote\..*\.url$").splitlines()
    root = Path(_git(folder, "rev-parse", "--show-toplevel") or folder)
    wanted = Repository.parse(repository).key
    found = []
    for name, _, url in (line.partition(" ") for line in lines):
        if _key(url, root) == wanted:
            found.append(name.removeprefix("remote.").removesuffix(".url"))
    return found


def _key(url: str, root: Path) -> str:
    from xmcloud.runs.capture.repository import without_credentials

    try:
        return Repository.parse(without_credentials(url, root)).key
    except ValueError:
        return ""


def _check_pushed(
    folder: Path, commit: str, remotes: Sequence[str], revision: str, repository: str
) -> None:
    """Raises `InvalidInput` for a commit that workers cannot fetch."""
    places = [f"refs/remotes/{remote}" for remote in remotes]
    if _git(folder, "for-each-ref", "--count=1", f"--contains={commit}", *places):
        return
    if commit not in _tips(repository, folder).values():
        expected = (
            f"a commit that {repository} has; {commit[:12]} was not pushed. Push it, or give the"
            " full id if it is there"
        )
        raise InvalidInput("commit", revision, expected)


def _expected(repository: str, count: int) -> str:
    what = "no branch or tag has that name" if not count else f"{count} commits begin so"
    return (
        f"a branch or a tag of {repository}, or the full id of a commit ({what} there);"
        " in a checkout of the repository the beginning of an id is enough"
    )


def _tips(repository: str, folder: Path) -> dict[str, str]:
    """The commits of all branches and tags by full name, as the remote tells them now."""
    done = _run(folder, "ls-remote", "--quiet", "--", repository)
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise CannotAskRemote(
            f"git cannot read {repository}: {said[0] if said else 'it says nothing'}.",
            "Try it with `git ls-remote`, or give the full id of the commit.",
        )
    lines = (line.partition("\t") for line in done.stdout.splitlines())
    return {name: commit for commit, _, name in lines}


def _of_tips(revision: str, tips: Mapping[str, str]) -> set[str]:
    """What git would take; an annotated tag stands for its commit."""
    for form in ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}"):
        name = form.format(revision)
        if name in tips:
            return {tips.get(f"{name}^{{}}", tips[name])}
    if not re.fullmatch("[0-9a-f]{4,40}", revision):
        return set()
    tagged = {name.removesuffix("^{}") for name in tips if name.endswith("^{}")}
    commits = {commit for name, commit in tips.items() if name not in tagged}
    return {commit for commit in commits if commit.startswith(revision)}


def _git(folder: Path, *arguments: str) -> str:
    """The text that it prints; '' when it fails."""
    done = _run(folder, *arguments)
    return "" if done.returncode else done.stdout.strip()


def _run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=os.environ | _QUIET,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise CannotAskRemote(
            "git is not installed here.", "Install it, or give the full id of the commit."
        ) from None
    except subprocess.TimeoutExpired:
        raise CannotAskRemote(
            f"git {arguments[0]} took longer than {SECONDS:g} s.",
            "Try again, or give the full id of the commit.",
        ) from None
