"""The patterns of .gitignore files, as git reads them."""

import re
from dataclasses import dataclass
from typing import Self

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class _Broken(ValueError):
    """The pattern matches nothing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line; it matches a path itself, never what is below the path."""

    regex: re.Pattern[str]
    ignores: bool
    folders_only: bool

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """None for a line that says nothing: a blank one, a comment, a broken pattern."""
        text = _without_trailing_spaces(line.removesuffix("\r"))
        if text.startswith("#"):
            return None
        ignores = not text.startswith("!")
        text = text if ignores else text[1:]
        folders_only = text.endswith("/")
        text = text[:-1] if folders_only else text
        if not text:
            return None
        anywhere = "(?:.*/)?" if "/" not in text else ""
        try:
            regex = re.compile(anywhere + _translated(text.removeprefix("/")), re.DOTALL)
        except _Broken:
            return None
        return cls(regex, ignores, folders_only)

    def matches(self, name: str, is_folder: bool) -> bool:
        """`name` is the path below the pattern's folder."""
        return (is_folder or not self.folders_only) and self.regex.fullmatch(name) is not None


def parse_lines(text: str) -> tuple[Pattern, ...]:
    """The patterns, the last first: it decides."""
    lines = text.removeprefix("\ufeff").split("\n")
    return tuple(pattern for line in reversed(lines) if (pattern := Pattern.parse(line)))


def _without_trailing_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    escaped = (len(kept) - len(kept.rstrip("\\"))) % 2 == 1
    return f"{kept} " if escaped and kept != line else kept


def _translated(glob: str) -> str:
    """The glob as a regular expression. Raises `_Broken`."""
    regex, at = "", 0
    while at < len(glob):
        piece, at = _piece(glob, at)
        regex += piece
    return regex


def _piece(glob: str, at: int) -> tuple[str, int]:
    match glob[at]:
        case "*":
            return _stars(glob, at)
        case "?":
            return "[^/]", at + 1
        case "[":
            return _bracket(glob, at + 1)
        case "\\":
            return re.escape(_character(glob, at + 1)), at + 2
        case other:
            return re.escape(other), at + 1


def _stars(glob: str, at: int) -> tuple[str, int]:
    end = at
    while glob[end : end + 1] == "*":
        end += 1
    begins, after = at == 0 or glob[at - 1] == "/", glob[end : end + 1]
    if end - at < 2 or not begins or after not in ("", "/"):
        return "[^/]*", end
    return (".*", end) if after == "" else ("(?:.*/)?", end + 1)


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """From behind the opening bracket to behind the closing one."""
    negated = glob[at : at + 1] in ("!", "^")
    first = at = at + negated
    members = ""
    while at == first or _character(glob, at) != "]":
        if named := re.compile(r"\[:(\w*):\]").match(glob, at):
            if named[1] not in _CLASSES:
                raise _Broken
            members, at = members + _CLASSES[named[1]], named.end()
            continue
        low, at = _member(glob, at)
        if glob[at : at + 1] == "-" and _character(glob, at + 1) != "]":
            high, at = _member(glob, at + 1)
            members += f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)
        else:
            members += re.escape(low)
    return f"(?!/)[{'^' if negated else ''}{members}]", at + 1


def _member(glob: str, at: int) -> tuple[str, int]:
    escapes = _character(glob, at) == "\\"
    return _character(glob, at + escapes), at + 1 + escapes


def _character(glob: str, at: int) -> str:
    if at >= len(glob):
        raise _Broken
    return glob[at]
