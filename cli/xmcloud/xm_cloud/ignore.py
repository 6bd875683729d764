"""Which files of a folder belong to it: .gitignore and .xmcloudignore decide."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

ALWAYS = frozenset({".git", ".hg", ".svn", "__pycache__"})
FILES = (".gitignore", ".xmcloudignore")
"""The later one decides where both say something."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one ignore file, which speak of what is below its folder."""

    folder: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """True: ignored; False: kept by an exception; None: not spoken of."""
        name = path.relative_to(self.folder).as_posix()
        return self.spec.check_file(f"{name}/" if is_folder else name).include


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files and symbolic links that are not ignored, in order of name.

    The ignore files of the folders above count up to the root of the git repository.
    """
    yield from _walk(folder, [rules for above in _above(folder) for rules in _rules_in(above)])


def _above(folder: Path) -> list[Path]:
    if (folder / ".git").exists():
        return []
    for count, parent in enumerate(folder.parents, 1):
        if (parent / ".git").exists():
            return list(reversed(folder.parents[:count]))
    return []


def _rules_in(folder: Path) -> Iterator[_Rules]:
    for name in FILES:
        path = folder / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            yield _Rules(folder, GitIgnoreSpec.from_lines(lines))


def _walk(folder: Path, inherited: list[_Rules]) -> Iterator[Path]:
    rules = [*inherited, *_rules_in(folder)]
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in ALWAYS or _ignored(path, is_folder, rules):
            continue
        if is_folder:
            yield from _walk(path, rules)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path


def _ignored(path: Path, is_folder: bool, rules: list[_Rules]) -> bool:
    for each in reversed(rules):
        verdict = each.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False
