"""What an environment is made from."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

Code = tuple[Path, ...]
"""Folders of a checkout whose modules the job imports: for its PYTHONPATH."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Lines of a requirements.txt, and of the constraints that it names; uv chooses versions."""

    text: str
    constraints: str = ""
    code: Code = ()


@dataclass(frozen=True, slots=True)
class Hashed:
    """A requirements.txt that is a lock: each line has a version and hashes."""

    text: str
    code: Code = ()


@dataclass(frozen=True, slots=True)
class PoetryLock:
    """The requirements that a poetry.lock comes to: all there are, hashed where files have them."""

    text: str
    code: Code = ()


@dataclass(frozen=True, slots=True)
class PyLock:
    """A pylock.toml without what it has of the checkout itself."""

    text: str
    code: Code = ()


@dataclass(frozen=True, slots=True)
class UvLock:
    """A uv.lock; `project` is the folder of the pyproject.toml whose part of it is wanted."""

    project: Path
    text: str
    code: Code = ()


Found = Listed | Hashed | PoetryLock | PyLock | UvLock


def repositories(found: Found) -> str:
    """Requirements among which all are that are git repositories, as `git+` addresses."""
    match found:
        case UvLock():
            sources = [x.get("source", {}) for x in tomllib.loads(found.text).get("package", ())]
            urls = [source["git"] for source in sources if "git" in source]
        case PyLock():
            places = [x.get("vcs", {}) for x in tomllib.loads(found.text).get("packages", ())]
            urls = [place["url"] for place in places if "url" in place]
        case _:
            return found.text
    return "".join(f"git+{url}\n" for url in urls)
