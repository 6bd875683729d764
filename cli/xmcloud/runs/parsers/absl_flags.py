"""absl: the flags of the script, and those of libraries that were set."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmcloud.runs.arguments import Argument, plain, positional


def hook(
    flags: Any, given: Sequence[Argument] | None, record: Callable[[list[Argument]], None]
) -> None:
    values = flags.FlagValues
    original = values.__call__

    @functools.wraps(original)
    def parse(self: Any, argv: Sequence[str], known_only: bool = False) -> list[str]:
        if self is flags.FLAGS and given is not None and list(argv) == sys.argv:
            argv = [argv[0], *words(self, given)]
        rest: list[str] = original(self, argv, known_only)
        if self is flags.FLAGS:
            record([*declared(self), *positional(rest[1:])])
        return rest

    values.__call__ = parse
    if flags.FLAGS.is_parsed():
        rest = remaining(flags.FLAGS, sys.argv[1:])
        record([*declared(flags.FLAGS), *positional(rest)])


def declared(values: Any) -> list[Argument]:
    own = {flag.name for flag in values.get_key_flags_for_module(sys.argv[0])}
    used = [name for name in values if name in own or values[name].present]
    return [
        Argument(name, _value(values[name]))
        for name in sorted(used)
        if values[name].name == name and name != "flagfile"
    ]


def remaining(values: Any, words: Sequence[str]) -> list[str]:
    """What is left of a command line that was parsed before."""
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            found.append(word)
            if not values.is_gnu_getopt():
                break
        elif (name := word.lstrip("-")) in values and not values[name].boolean:
            left = left[1:]
    return [*found, *left]


def _value(flag: Any) -> Any:
    """Without what only the flag's own parser understands."""
    value = plain(flag.value)
    kept = value is None or type(flag.value) in (bool, int, float, str, list)
    return value if kept else flag.serialize().partition("=")[2]


def words(values: Any, given: Sequence[Argument]) -> list[str]:
    """What the flags read as those values."""
    found: list[str] = []
    for argument in given:
        if argument.name is None:
            found.append(str(argument.value))
        else:
            found += _words(values, argument.name, argument.value)
    return found


def _words(values: Any, name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--no{name}"
    elif not isinstance(value, list):
        yield f"--{name}={value}"
    elif name in values and "Multi" in type(values[name]).__name__:
        yield from (f"--{name}={item}" for item in value)
    else:
        yield f"--{name}={','.join(map(str, value))}"
