"""A git repository: where it is, what is checked out, what was not pushed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from xmcloud.core.repositories import Repository
from xmcloud.runs.capture.git import Git

_SCP = re.compile(r"(?P<user>[^@/]*)@(?P<rest>[^/:]+:.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree with a commit; `remote` is '' where none is known."""

    root: Path
    url: str
    remote: str
    commit: str
    branch: str


def find(folder: Path) -> Checkout | None:
    """The one that the folder is in; None without git, a repository or a commit."""
    git = Git(folder)
    root, commit = git.line("rev-parse", "--show-toplevel"), git.line("rev-parse", "HEAD")
    if not root or not re.fullmatch("[0-9a-f]{40}", commit):
        return None
    branch = git.line("symbolic-ref", "--quiet", "--short", "HEAD")
    remote = _remote(git, branch)
    url = git.line("config", "--get", f"remote.{remote}.url") if remote else ""
    place = Path(root)
    return Checkout(place, _known_form(without_credentials(url, place)), remote, commit, branch)


def _known_form(url: str) -> str:
    """'' for an address that workers do not understand."""
    try:
        return Repository.parse(url).url
    except ValueError:
        return ""


def _remote(git: Git, branch: str) -> str:
    """That of the branch, else origin, else the first."""
    remotes = git.line("remote").split("\n")
    tracked = git.line("config", "--get", f"branch.{branch}.remote") if branch else ""
    return next((name for name in (tracked, "origin") if name in remotes), remotes[0])


def without_credentials(url: str, root: Path) -> str:
    """The address as everyone may see it; a path becomes a file:// URL."""
    if "://" not in url:
        if found := _SCP.fullmatch(url):
            return f"{found['user'].partition(':')[0]}@{found['rest']}"
        is_path = url.startswith((".", "/", "~")) or ":" not in url.partition("/")[0]
        return f"file://{(root / Path(url).expanduser()).resolve()}" if url and is_path else url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    kept = user.partition(":")[0] + at if parts.scheme in ("ssh", "git+ssh") else ""
    return urlunsplit((parts.scheme, kept + host, parts.path, "", ""))


def unpushed(checkout: Checkout) -> bytes:
    """A bundle of the commits that the remote is not known to have, b'' without any.

    Raises `GitFailed`.
    """
    git = Git(checkout.root)
    known = f"--remotes={checkout.remote}"
    if git("rev-list", "--max-count=1", "HEAD", "--not", known):
        return git("bundle", "create", "--quiet", "-", "HEAD", "--not", known)
    return b""


def submodules(checkout: Checkout) -> list[str]:
    """Those whose content is not what HEAD names, each with what is different.

    Raises `GitFailed`.
    """
    if not (checkout.root / ".gitmodules").exists():
        return []
    found = []
    for line in Git(checkout.root).parts("ls-tree", "-r", "-z", "HEAD"):
        about, _, path = line.partition("\t")
        mode, _, commit = about.split(" ")
        inside = checkout.root / path
        if mode == "160000" and (inside / ".git").exists():
            difference = ", ".join(_differences(Git(inside), commit))
            found += [f"{path} ({difference})"] if difference else []
    return found


def _differences(git: Git, commit: str) -> Iterator[str]:
    if git.line("rev-parse", "HEAD") != commit:
        yield "another commit"
    states = {
        entry[:2]
        for entry in git.parts(
            "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"
        )
    }
    if states - {"??"}:
        yield "changed files"
    if "??" in states:
        yield "untracked files"
