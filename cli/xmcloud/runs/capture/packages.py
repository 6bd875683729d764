"""The installed packages that a script imported, each with its version."""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_STARTERS = {"_distutils_hack", "_virtualenv"}
"""Imported when any Python starts where they are installed."""

_SUFFIXES = (".py", ".so", ".pyd")


_BUILT_FOR_A_MACHINE = {"torch", "torchvision", "torchaudio"}
"""Their `+cpu` or `+cu128` is for the CUDA of one machine; another one chooses its own."""


@dataclass(slots=True)
class Packages:
    """Lines of a requirements.txt, and those that were installed from this machine's files."""

    requirements: list[str] = field(default_factory=list)
    local: list[Distribution] = field(default_factory=list)


def imported(modules: Collection[str], path: Sequence[str]) -> Packages:
    """What the modules belong to; `path` is where the script looks for them."""
    tops = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - _STARTERS
    owners: dict[str, list[Distribution]] = {top: [] for top in tops}
    for distribution in distributions(path=list(path)):
        for top in _tops(distribution) & tops:
            owners[top].append(distribution)
    used: dict[str, Distribution] = {}
    for top, candidates in owners.items():
        wanted = [name for name in modules if name.partition(".")[0] == top]
        for owner in _owning(candidates, wanted):
            used.setdefault(owner.name.lower(), owner)
    return _sorted(used[name] for name in sorted(used))


def _sorted(used: Iterator[Distribution]) -> Packages:
    packages = Packages()
    for distribution in used:
        requirement = pinned(distribution.name, distribution.version, _origin(distribution))
        if requirement is None:
            packages.local.append(distribution)
        else:
            packages.requirements.append(requirement)
    return packages


def pinned(name: str, version: str, origin: dict[str, Any]) -> str | None:
    """The requirement that gives the same package elsewhere; None for one of this machine."""
    url = str(origin.get("url", ""))
    if url.startswith("file:"):
        return None
    if revision := origin.get("vcs_info", {}).get("commit_id"):
        return f"{name} @ {origin['vcs_info'].get('vcs', 'git')}+{_public(url)}@{revision}"
    if name.lower() in _BUILT_FOR_A_MACHINE:
        version = version.partition("+")[0]
    return f"{name} @ {_public(url)}" if url else f"{name}=={version}"


def _public(url: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    kept = user.partition(":")[0] + at if parts.scheme == "ssh" else ""
    return urlunsplit((parts.scheme, kept + host, parts.path, "", parts.fragment))


def code_of(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of an installed package by their place in it; none of an editable one."""
    for file in distribution.files or ():
        name = str(file)
        if not name.startswith("..") and "__pycache__" not in name and not _about(name):
            yield name, Path(str(distribution.locate_file(name)))


def is_editable(distribution: Distribution) -> bool:
    return bool(_origin(distribution).get("dir_info", {}).get("editable"))


def _about(name: str) -> bool:
    return name.endswith(".pth") or name.partition("/")[0].endswith((".dist-info", ".egg-info"))


def _origin(distribution: Distribution) -> dict[str, Any]:
    text = distribution.read_text("direct_url.json")
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _tops(distribution: Distribution) -> set[str]:
    if text := distribution.read_text("top_level.txt"):
        return set(text.split())
    return {name for line in _record(distribution) if (name := _top(line))}


def _record(distribution: Distribution) -> list[str]:
    text = distribution.read_text("RECORD") or ""
    return [line.rpartition(",")[0].rpartition(",")[0].strip('"') for line in text.splitlines()]


def _top(file: str) -> str:
    first, slash, _ = file.partition("/")
    if not slash:
        return first.partition(".")[0] if first.endswith(_SUFFIXES) else ""
    return first if first.isidentifier() else ""


def _owning(candidates: list[Distribution], modules: list[str]) -> Iterator[Distribution]:
    """Those that have a file of what was imported; a name may be shared, or be a folder alone."""
    stems = {module.replace(".", "/") for module in modules}
    for candidate in candidates:
        files = {file.partition(".")[0].removesuffix("/__init__") for file in _record(candidate)}
        if files & stems or not files:
            yield candidate
