"""Which files of a folder belong to it: .gitignore and .xmcloudignore decide."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from xmcloud.xm_cloud.archives.patterns import Pattern, parse_lines

NEVER = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox",
     ".nox", ".ipynb_checkpoints"}
)  # fmt: skip
"""What version control and tools keep for themselves; no exception brings it in."""

VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""A folder with this file belongs to one machine's Python and is left out too."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one ignore file, which speak of what is below its folder."""

    folder: Path
    patterns: tuple[Pattern, ...]

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """True: ignored; False: kept by an exception; None: not spoken of."""
        if not self.patterns:
            return None
        name = path.relative_to(self.folder).as_posix()
        for pattern in self.patterns:
            if pattern.matches(name, is_folder):
                return pattern.ignores
        return None


@dataclass(frozen=True, slots=True)
class _Ignored:
    """All rules that apply in a folder, the deepest last.

    What .xmcloudignore files say, at any depth, decides over .gitignore files.
    """

    git: tuple[_Rules, ...] = ()
    own: tuple[_Rules, ...] = ()

    def inside(self, folder: Path) -> "_Ignored":
        """With the rules that lie in the folder; a repository there has rules of its own."""
        git, own = self.git, self.own
        if (exclude := _exclude_file(folder)) is not None:
            git = _rules_of(exclude, folder)
        return _Ignored(
            git=(*git, *_rules_of(folder / ".gitignore", folder)),
            own=(*own, *_rules_of(folder / ".xmcloudignore", folder)),
        )

    def covers(self, path: Path, is_folder: bool) -> bool:
        for rules in (*reversed(self.own), *reversed(self.git)):
            verdict = rules.verdict(path, is_folder)
            if verdict is not None:
                return verdict
        return False


def files_below(folder: Path) -> Iterator[Path]:
    """Files, symbolic links and empty folders that are not ignored, in order of name.

    The ignore files of the folders above count up to the root of the git repository, but cannot
    ignore the folder itself: who names it wants it. `folder` is an absolute path without links.
    """
    yield from _walk(folder, _from_above(folder).inside(folder))


def _from_above(folder: Path) -> _Ignored:
    rules = _Ignored()
    for above, below in pairwise((*_above(folder), folder)):
        rules = rules.inside(above)
        if rules.covers(below, is_folder=True):
            return _Ignored()
    return rules


def _above(folder: Path) -> list[Path]:
    """The folders from the root of the repository down to the one above."""
    if (folder / ".git").exists():
        return []
    for count, parent in enumerate(folder.parents, 1):
        if (parent / ".git").exists():
            return list(reversed(folder.parents[:count]))
    return []


def _walk(folder: Path, rules: _Ignored) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or rules.covers(path, is_folder):
            continue
        if is_folder:
            if not (path / VIRTUAL_ENVIRONMENT).is_file():
                yield from _walk(path, rules.inside(path))
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path
    if not found:
        yield folder


def _rules_of(file: Path, folder: Path) -> tuple[_Rules, ...]:
    if not file.is_file():
        return ()
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    return (_Rules(folder, parse_lines(text)),)


def _exclude_file(folder: Path) -> Path | None:
    """The repository's own list, if the folder is the root of one."""
    git = folder / ".git"
    if git.is_file():  # of a work tree or a submodule: it names the true one
        text = git.read_text(encoding="utf-8", errors="surrogateescape")
        git = folder / text.removeprefix("gitdir:").strip()
        common = git / "commondir"
        if common.is_file():
            git = git / common.read_text(encoding="utf-8", errors="surrogateescape").strip()
    elif not git.is_dir():
        return None
    return git / "info" / "exclude"
