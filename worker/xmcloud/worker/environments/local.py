"""Files of a checkout that name what to install, and code that lies in it."""

import tomllib
from pathlib import Path
from typing import Any

from xmcloud.worker.setup import SetupFailed


def read(path: Path, root: Path) -> str:
    """Raises `SetupFailed` unless it is a text that lies below the root, links followed."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise SetupFailed(f"{_seen(path, root)} lies outside of the repository. Commit the file.")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SetupFailed(
            f"There is no {_seen(path, root)}. Commit it, or correct its name."
        ) from None
    except UnicodeDecodeError:
        raise SetupFailed(f"{_seen(path, root)} is not UTF-8. Save it as such.") from None


def table(path: Path, root: Path) -> dict[str, Any]:
    """What a TOML file has. Raises `SetupFailed`."""
    try:
        return tomllib.loads(read(path, root))
    except tomllib.TOMLDecodeError as error:
        seen = _seen(path, root)
        raise SetupFailed(f"{seen} is not readable: {error}. Correct it and commit it.") from error


def import_root(project: Path, root: Path, named: str) -> Path:
    """The folder whose modules an editable installation of the project would make importable.

    Raises `SetupFailed` for a folder that the repository does not have.
    """
    project = project.resolve()
    if not project.is_relative_to(root.resolve()) or not project.is_dir():
        raise SetupFailed(
            f"{named} names a folder that is not in the repository. Move it there, or have it at"
            " an index or in a repository of its own."
        )
    return project / "src" if (project / "src").is_dir() else project


def _seen(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
