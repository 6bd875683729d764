"""What to install for code that came without requirements of its own."""

from collections.abc import Iterator
from pathlib import Path

from xmcloud.worker.environments.listed import listed, of_project
from xmcloud.worker.environments.local import import_root, read, table
from xmcloud.worker.environments.poetry import poetry_lock
from xmcloud.worker.environments.pylock import py_lock
from xmcloud.worker.environments.wanted import Found, Hashed, Listed, UvLock
from xmcloud.worker.setup import SetupFailed


def find(where: Path, root: Path) -> Found:
    """What the folders from `where` up to `root` say, `where` being one of those below it.

    A lock in any of them counts before a requirements.txt, that before a pyproject.toml.
    Raises `SetupFailed` when it cannot be used.
    """
    where, root = where.resolve(), root.resolve()
    folders = [where, *(p for p in where.parents if p.is_relative_to(root))]
    for look in (_lock, _requirements, of_project):
        for folder in folders:
            if (found := look(folder, where, root)) is not None:
                return found
    return Listed("")


def _lock(folder: Path, where: Path, root: Path) -> Found | None:
    if (folder / "uv.lock").is_file():
        return _uv_lock(folder, where, root)
    if (path := folder / "poetry.lock").is_file():
        return poetry_lock(path, root)
    if (path := folder / "pylock.toml").is_file():
        return py_lock(path, root)
    for name in ("requirements.lock", "requirements.txt"):
        if (path := folder / name).is_file():
            found = listed(path, root)
            if "--hash" in found.text:
                return Hashed(found.text, found.code)
            if path.suffix == ".lock":
                return found
    return None


def _requirements(folder: Path, _: Path, root: Path) -> Found | None:
    path = folder / "requirements.txt"
    return listed(path, root) if path.is_file() else None


def _uv_lock(folder: Path, where: Path, root: Path) -> UvLock:
    project = folder / "pyproject.toml"
    if not project.is_file():
        raise SetupFailed("uv.lock has no pyproject.toml beside it. Commit that as well.")
    members = {path.resolve(): is_installed for path, is_installed in _local(folder, root)}
    inside = [p for p in (where, *where.parents) if p == folder or p.is_relative_to(folder)]
    nearest = next((p for p in inside if p.resolve() in members), folder)
    installed = [path for path, is_installed in members.items() if is_installed]
    code = tuple(import_root(path, root, "uv.lock") for path in installed)
    return UvLock(nearest, read(folder / "uv.lock", root), code)


def _local(folder: Path, root: Path) -> Iterator[tuple[Path, bool]]:
    """Folders that a uv.lock names, and whether they are installed."""
    for entry in table(folder / "uv.lock", root).get("package", []):
        source = entry.get("source", {})
        if "path" in source:
            raise SetupFailed(
                f"uv.lock has {entry.get('name')!r} at the path {source['path']!r}: environments"
                " are shared by jobs and have none of it. Have it at an index or a URL."
            )
        for kind in ("editable", "directory", "virtual"):
            if kind in source:
                yield folder / source[kind], kind != "virtual"
