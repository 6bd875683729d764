"""What Bazel reports of a build: its Build Event Protocol, a JSON event a line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Report:
    """By label within its repository (`//package:name`): the default outputs, and what failed."""

    outputs: Mapping[str, tuple[Path, ...]]
    failed: frozenset[str]


def read_events(path: Path) -> Report:
    """An empty report if there is no file: Bazel ended before it came to building."""
    if not path.is_file():
        return Report({}, frozenset())
    with path.open(encoding="utf-8") as lines:
        return report_of(map(json.loads, lines))


def report_of(events: Iterable[dict[str, Any]]) -> Report:
    """Targets that an aspect was applied to are not counted a second time."""
    sets: dict[str, dict[str, Any]] = {}
    roots: dict[str, list[str]] = {}
    failed: set[str] = set()
    for event in events:
        match event:
            case {"id": {"namedSet": {"id": name}}, "namedSetOfFiles": contents}:
                sets[name] = contents
            case {"id": {"targetCompleted": {"aspect": _}}}:
                pass
            case {
                "id": {"targetCompleted": {"label": label}},
                "completed": {"success": True} as done,
            }:
                roots[_path(label)] = _default_sets(done)
            case {"id": {"targetCompleted": {"label": label}}, "completed": _}:
                failed.add(_path(label))
            case {"aborted": {"reason": "INCOMPLETE"}}:
                pass
            case {"id": {"targetCompleted": {"label": label}}, "aborted": _}:
                failed.add(_path(label))
            case {"id": {"pattern": {"pattern": labels}}, "aborted": _}:
                failed.update(map(_path, labels))
    return Report({p: _files(sets, names) for p, names in roots.items()}, frozenset(failed))


def _path(label: str) -> str:
    return "//" + label.partition("//")[2]


def _default_sets(done: dict[str, Any]) -> list[str]:
    groups = done.get("outputGroup", [])
    default = (group for group in groups if group["name"] == "default")
    return [each["id"] for group in default for each in group.get("fileSets", [])]


def _files(sets: Mapping[str, dict[str, Any]], names: Iterable[str]) -> tuple[Path, ...]:
    """The files of sets and of the sets they include, each once."""
    seen: set[str] = set()
    files: dict[Path, None] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        some = sets[name].get("files", [])
        files |= {_local(file["uri"]): None for file in some if "uri" in file}
        left += [each["id"] for each in sets[name].get("fileSets", [])]
    return tuple(sorted(files))


def _local(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
