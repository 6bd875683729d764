"""Reading the lines of a requirements.txt."""

import re
from collections.abc import Iterator

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")


def logical(text: str) -> Iterator[str]:
    """Without comments and blank lines; what a backslash continues is one line."""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        bare = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()
        if bare:
            yield re.sub(r"\s+--hash", " --hash", bare)


def normalised(text: str) -> str:
    """Sorted, each line once: what makes requirements the same."""
    return "".join(f"{line}\n" for line in sorted(set(logical(text))))


def package(line: str) -> str:
    """The normalised name of the package that a line is about; '' of an option or a path."""
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def option(line: str, *names: str) -> str | None:
    """The value of an option that has one of these names, None if the line is another."""
    for name in names:
        long = name.startswith("--")
        if line.startswith((f"{name} ", f"{name}=") if long else name):
            return line[len(name) :].lstrip(" =").strip("\"'")
    return None
