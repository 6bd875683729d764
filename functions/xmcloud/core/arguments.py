"""From typed arguments to the exact argv of a process."""

from collections.abc import Iterable

from pydantic import JsonValue

from xmcloud.core.models import Argument


def render(arguments: Iterable[Argument]) -> list[str]:
    """The tokens of the arguments, each exactly as the process receives it.

    A flag becomes `--name=value`; True `--name`, False `--noname`; None is left out; a list
    repeats the flag. A nested list or an object is one token, as Python prints it.
    """
    return [token for argument in arguments for token in _tokens(argument.name, argument.value)]


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
