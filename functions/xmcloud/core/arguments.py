"""From typed arguments to the exact argv of a process."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue

from xmcloud.core.specs import Argument


def render(arguments: Iterable[Argument]) -> list[str]:
    """The tokens of the arguments, each exactly as the process receives it.

    A flag becomes `--name=value`; True `--name`, False `--noname`; None is left out; a list
    repeats the flag. A nested list or an object is one token, as Python prints it.
    """
    return [token for argument in arguments for token in _tokens(argument.name, argument.value)]


def command_line(command: Sequence[str], arguments: Sequence[Argument]) -> list[str]:
    """The argv of a command with its arguments.

    A shell starts the command, in its own place, only if an argument is there for it to read.
    """
    if not any(argument.shell for argument in arguments):
        return [*command, *render(arguments)]
    words = [*map(shlex.quote, command), *_words(arguments)]
    return ["/bin/sh", "-c", f"exec {' '.join(words)}"]


def _words(arguments: Iterable[Argument]) -> Iterator[str]:
    for argument in arguments:
        if argument.shell:
            quoted = None if argument.name is None else shlex.quote(argument.name)
            yield from _tokens(quoted, argument.value)
        else:
            yield from map(shlex.quote, _tokens(argument.name, argument.value))


def _tokens(name: str | None, value: JsonValue) -> list[str]:
    if value is None:
        return []
    if name is None:
        return [str(value)]
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no{name}"]
    if isinstance(value, list):
        return [f"--{name}={item}" for item in value]
    return [f"--{name}={value}"]
