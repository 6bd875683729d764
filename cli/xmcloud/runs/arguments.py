"""Arguments with their types, as they travel between a script and its job. Standard library."""

import math
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from xmcloud.core.words import words as words_of

_INTEGERS = range(-(2**63), 2**63)


class Argument(NamedTuple):
    """A flag when it has a name, without its dashes; else positional."""

    name: str | None
    value: Any


def positional(values: Iterable[Any]) -> list[Argument]:
    """With `--` before the first that could be taken for a flag."""
    found: list[Argument] = []
    guarded = False
    for value in values:
        if str(value).startswith("-") and len(str(value)) > 1 and not guarded:
            guarded = True
            found.append(Argument(None, "--"))
        found.append(Argument(None, value))
    return found


def words(arguments: Iterable[Argument]) -> list[str]:
    """Those of the command line."""
    return [word for each in arguments for word in words_of(each.name, each.value)]


def plain(value: object) -> Any:
    """The value in JSON's types, its own type where JSON has it."""
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return int(value) if value in _INTEGERS else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return plain(value.item())
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and hasattr(value, "read") else str(value)
