"""Lists of packages as people write them: the lines of a requirements.txt."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator

from xmcloud.core.repositories import Requirements

_NAME = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_VERSION = r"(?:===?|~=|!=|<=?|>=?)\s*[^\s,;()]+"
_VERSIONS = rf"\(?\s*{_VERSION}(?:\s*,\s*{_VERSION})*\s*\)?"
_PACKAGE = re.compile(rf"{_NAME}\s*(?:\[[^\]\n]*\])?\s*(?:@\s*\S+|{_VERSIONS})?\s*(?:;.*)?")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASHES = re.compile(r"\s--hash[= ]\S+")


def _one_package(line: str) -> str:
    if "\n" in line or package_of(line) is None:
        raise ValueError("must name one package, such as numpy==2.1 or mine @ git+https://..")
    return line.strip()


Requirement = Annotated[Requirements, AfterValidator(_one_package)]
"""One package, and which versions of it."""


def package_of(line: str) -> str | None:
    """The package's name as indices write it; None for a comment, an option, a path, a URL."""
    plain = _HASHES.sub("", _COMMENT.sub("", line.replace("\\\n", " "))).strip()
    found = _PACKAGE.fullmatch(plain)
    return normal(found["name"]) if found else None


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lines_of(requirements: str) -> Iterator[str]:
    """The lines, with what goes on behind a backslash in one."""
    begun = ""
    for line in requirements.splitlines():
        begun += line
        if line.endswith("\\"):
            begun += "\n"
            continue
        yield begun
        begun = ""
    if begun:
        yield begun


def with_packages(requirements: str, packages: Iterable[str]) -> str:
    """The list with each of the packages at its place, else at the end."""
    wanted = {package_of(line): line for line in packages}
    left = dict(wanted)
    lines: list[str] = []
    for line in lines_of(requirements):
        name = package_of(line)
        if name is None or name not in wanted:
            lines.append(line)
        elif name in left:
            lines.append(left.pop(name))
    return "".join(f"{line}\n" for line in [*lines, *left.values()])
