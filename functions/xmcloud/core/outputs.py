"""What a run leaves behind: its folder of outputs, and what the results of its job hold of it.

Standard library alone. Files lie below the folder by their names; what is ours lies below `OWN`,
a folder for each process that recorded there: `POINTS` and `NAMES` of its series, `SUMMARY`,
copies of files, and `INDEX`, of which each line is one thing.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

OWN = ".xmcloud"
INDEX, SUMMARY, OUTPUT = "index", "summary.json", "output"

RESULTS_LIMIT = 16 * 1024
"""Bytes of a job's results as JSON; what is too much is left out of the glance, last first."""

_RESERVE = 128
"""Of these, for what tells that something was left out."""

Kind = Literal["kept", "input", "tensorboard"]


class Entry(NamedTuple):
    """A line of the index: a copy of a file, an input, or a folder of event files."""

    kind: Kind
    name: str
    about: dict[str, Any]

    @property
    def line(self) -> bytes:
        return json.dumps([self.kind, self.name, self.about]).encode() + b"\n"


def entries(index: bytes) -> Iterator[Entry]:
    """Without lines that were not written whole."""
    for line in index.splitlines():
        try:
            kind, name, about = parsed(line)
        except (ValueError, TypeError):
            continue
        if kind in ("kept", "input", "tensorboard") and isinstance(about, dict):
            yield Entry(kind, str(name), about)


def parsed(text: bytes) -> Any:
    """What others wrote as JSON; numbers that JSON has not are text. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=str)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def fitting(results: Mapping[str, Any], limit: int = RESULTS_LIMIT - _RESERVE) -> dict[str, Any]:
    """As much as a job's results hold: of what has many parts, the last are left out."""
    found = {name: dict(v) if isinstance(v, dict) else v for name, v in results.items()}
    size = len(json.dumps(found))
    if size <= limit:
        return found
    weights = {n: len(json.dumps(v)) for n, v in found.items() if isinstance(v, dict) and v}
    while size > limit and weights:
        heaviest = max(weights, key=lambda name: weights[name])
        weight = len(json.dumps(dict([found[heaviest].popitem()])))
        size, weights[heaviest] = size - weight, weights[heaviest] - weight
        if not found[heaviest]:
            del weights[heaviest]
    return found | {"cut": True} if size <= limit else {"cut": True}


def unicode(value: Any) -> Any:
    """The same with text that every store takes: names of files may hold bytes that are none."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "?")
    if isinstance(value, dict):
        return {unicode(str(key)): unicode(item) for key, item in value.items()}
    return [unicode(item) for item in value] if isinstance(value, list) else value
