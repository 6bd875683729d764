"""Repositories as people have them."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ME = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ALLOW_PROTOCOL": "file",
    "PATH": os.environ["PATH"],
}


def git(folder: Path, *arguments: str, **environ: str) -> bytes:
    """What the command prints."""
    argv = ["git", "-C", str(folder), *arguments]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, env={**_ME, **environ}).stdout


def new_repository(folder: Path, files: Mapping[str, str | bytes]) -> str:
    """The id of its only commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, files)


def commit(folder: Path, files: Mapping[str, str | bytes]) -> str:
    write(folder, files)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
    return head(folder)


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD").decode().strip()


def uncommitted(folder: Path) -> bytes:
    """All that is not committed, as a binary patch; whatever the user's settings are."""
    git(folder, "add", "--all")
    diff = ("diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff")
    fixed = ("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "HEAD")
    return git(folder, *diff, *fixed)


def facts(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The mode and the content of every file, links as their targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if ".git" in name.parts or (path.is_dir() and not path.is_symlink()):
            continue
        link = path.is_symlink()
        content = os.fsencode(os.readlink(path)) if link else path.read_bytes()
        found[str(name)] = (path.lstat().st_mode & 0o170111, content)
    return found
