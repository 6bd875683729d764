"""Requirements that a checkout lists, with what they include and the folders that they name."""

import re
from pathlib import Path
from typing import Any

from xmcloud.worker.environments.lines import logical, option
from xmcloud.worker.environments.local import import_root, read, table
from xmcloud.worker.environments.wanted import Listed
from xmcloud.worker.setup import SetupFailed

_FOLDER = re.compile(r"^(?P<path>(?:\.|/|file:)[^\[;#]*?)/?(?:\[(?P<extras>[^\]]*)\])?\s*(?:;.*)?$")


def listed(path: Path, root: Path) -> Listed:
    """A requirements.txt. Raises `SetupFailed`."""
    reading = _Reading(root)
    reading.requirements(path)
    return reading.result()


def of_project(folder: Path, _: Path, root: Path) -> Listed | None:
    """The dependencies of a pyproject.toml, None if it has none. Raises `SetupFailed`."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    project = table(path, root)
    if "project" not in project:
        if "dependencies" in project.get("tool", {}).get("poetry", {}):
            raise SetupFailed(
                "pyproject.toml lists its dependencies for Poetry alone, and there is no"
                " poetry.lock. Run `poetry lock` and commit what it writes."
            )
        return None
    reading = _Reading(root)
    reading.project(folder, "pyproject.toml", frozenset())
    return reading.result()


class _Reading:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: list[str] = []
        self._constraints: list[str] = []
        self._code: dict[Path, None] = {}
        self._seen: set[Path] = set()

    def result(self) -> Listed:
        def text(lines: list[str]) -> str:
            return "".join(f"{line}\n" for line in lines)

        return Listed(text(self._lines), text(self._constraints), tuple(self._code))

    def requirements(self, path: Path) -> None:
        for line in self._new(path):
            if "://" in line:
                self._requirement(line, path)
            elif (included := option(line, "-r", "--requirement")) is not None:
                self.requirements(path.parent / included)
            elif (included := option(line, "-c", "--constraint")) is not None:
                self._constraints += self._new(path.parent / included)
            else:
                self._requirement(line, path)

    def _new(self, path: Path) -> list[str]:
        """Its lines, none when they were read before."""
        if path.resolve() in self._seen:
            return []
        self._seen.add(path.resolve())
        return list(logical(read(path, self._root)))

    def _requirement(self, line: str, path: Path) -> None:
        editable = option(line, "-e", "--editable")
        found = _FOLDER.match(editable or line)
        if found is None and editable is None:
            self._lines.append(line)
        elif found is None:
            # An editable installation of a repository or the like is shared as any other.
            self._lines.append(str(editable))
        else:
            place = path.parent / found["path"].removeprefix("file://").removeprefix("file:")
            extras = frozenset(filter(None, re.split(r"[\s,]+", found["extras"] or "")))
            self.project(place, f"{path.name}: {line}", extras)

    def project(self, folder: Path, named: str, extras: frozenset[str]) -> None:
        """Its dependencies; its code is not installed but imported from where it is."""
        problem = _problem(folder, self._root)
        facts: dict[str, Any] = {}
        if not problem:
            facts = table(folder / "pyproject.toml", self._root).get("project", {})
            if not facts or "dependencies" in facts.get("dynamic", ()):
                problem = "its pyproject.toml does not list its dependencies under [project]"
        if problem:
            raise SetupFailed(
                f"Cannot install what {named!r} names: {problem}."
                " Commit a lock file, or list its requirements in a requirements.txt."
            )
        self._lines += facts.get("dependencies", [])
        for extra in sorted(extras):
            self._lines += facts.get("optional-dependencies", {}).get(extra, [])
        self._code[import_root(folder, self._root, named)] = None


def _problem(folder: Path, root: Path) -> str:
    if not folder.resolve().is_relative_to(root.resolve()):
        return "it lies outside of the repository"
    if not folder.is_dir():
        return "it is not a folder of the repository, and environments are shared by jobs"
    if not (folder / "pyproject.toml").is_file():
        return "it has no pyproject.toml"
    return ""
