"""Git repositories of people with settings of their own."""

import os
import subprocess
from pathlib import Path

HOSTILE = """
[user]
    name = Ann
    email = ann@example.com
[diff]
    noprefix = true
    mnemonicPrefix = true
    external = false
    algorithm = patience
    suppressBlankEmpty = true
    renames = copies
    context = 0
    interHunkContext = 9
    orderFile = ~/order
    ignoreSubmodules = all
    colorMoved = zebra
[diff "shout"]
    textconv = tr a-z A-Z <
    command = false
[color]
    ui = always
    diff = always
[core]
    quotePath = false
    pager = false
    autocrlf = input
    hooksPath = /nowhere
    abbrev = 4
[status]
    relativePaths = true
    showUntrackedFiles = no
[apply]
    whitespace = fix
[protocol "file"]
    allow = always
"""


class Person:
    """Runs git with hostile settings."""

    def __init__(self, home: Path) -> None:
        self.settings = home / "gitconfig"
        self.settings.write_text(HOSTILE.replace("~", str(home)))
        (home / "order").write_text("*.txt\n")
        own = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        self.environment = own | {
            "GIT_CONFIG_GLOBAL": str(self.settings),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def __call__(self, folder: Path, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env=self.environment,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode()

    def repository(self, folder: Path, files: dict[str, bytes]) -> Path:
        """One commit of the files, pushed to a bare repository beside it."""
        bare = folder.with_suffix(".git")
        self(folder.parent, "init", "-q", "--bare", str(bare))
        self(folder.parent, "clone", "-q", str(bare), str(folder))
        write(folder, files)
        self.commit(folder)
        self(folder, "push", "-q", "-u", "origin", "HEAD")
        return folder

    def commit(self, folder: Path) -> None:
        self(folder, "add", "-A")
        self(folder, "commit", "-q", "-m", "change")


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def applied(repository: Path, commit: str, patch: bytes, target: Path) -> Path:
    """A fresh clone at the commit with the patch, by somebody without settings."""
    plain = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/nowhere"}
    for words in (
        ["git", "clone", "-q", str(repository), str(target)],
        ["git", "-C", str(target), "checkout", "-q", commit],
    ):
        subprocess.run(words, env=plain, check=True, capture_output=True)
    if patch:
        apply = ["git", "-C", str(target), "apply", "--index", "--whitespace=nowarn", "-"]
        subprocess.run(apply, env=plain, input=patch, check=True, capture_output=True)
    return target


def tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file's kind and content, without git's own and what Python compiled."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith(".git/") or name == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        if "__pycache__" in path.parts:
            continue
        if path.is_symlink():
            found[name] = ("link", os.fsencode(os.readlink(path)))
        else:
            mode = "program" if os.access(path, os.X_OK) else "file"
            found[name] = (mode, path.read_bytes())
    return found
