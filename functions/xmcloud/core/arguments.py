"""From typed arguments to the exact argv of a process."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from xmcloud.core.specs import Argument
from xmcloud.core.words import words


def render(arguments: Iterable[Argument]) -> list[str]:
    """The words of the arguments, each exactly as the process receives it."""
    return [word for argument in arguments for word in words(argument.name, argument.value)]


def command_line(command: Sequence[str], arguments: Sequence[Argument]) -> list[str]:
    """The argv of a command with its arguments.

    A shell starts the command, in its own place, only if an argument is there for it to read.
    """
    if not any(argument.shell for argument in arguments):
        return [*command, *render(arguments)]
    line = [*map(shlex.quote, command), *_quoted(arguments)]
    return ["/bin/sh", "-c", f"exec {' '.join(line)}"]


def _quoted(arguments: Iterable[Argument]) -> Iterator[str]:
    for argument in arguments:
        if argument.shell:
            quoted = None if argument.name is None else shlex.quote(argument.name)
            yield from words(quoted, argument.value)
        else:
            yield from map(shlex.quote, words(argument.name, argument.value))
