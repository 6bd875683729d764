"""From the arguments of a launch script to the typed arguments of a job."""

import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic import JsonValue

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Argument

INTEGERS = range(-(2**63), 2**63)
"""What every store keeps as an integer; a larger one travels as text."""


def to_protocol(arguments: xm.SequentialArgs) -> tuple[Argument, ...]:
    """Arguments whose argv is that of `arguments`, with their JSON types kept.

    A `ShellSafeArg` is read by a shell where the job runs; in a list, each item is an argument of
    its own then. Raises `InvalidInput` for text that no process can receive.
    """
    return tuple(_arguments(arguments))


def _arguments(arguments: xm.SequentialArgs) -> Iterator[Argument]:
    for key, value in arguments.items():
        if isinstance(key, str):
            yield from _flag(_checked("the name of an argument", key), value)
        elif isinstance(value, xm.ShellSafeArg):
            yield _for_shell(None, str(key + 1), value.arg)
        else:
            yield Argument(value="None" if value is None else _scalar(str(key + 1), value))


def _flag(name: str, value: Any) -> Iterator[Argument]:
    if isinstance(value, xm.ShellSafeArg):
        yield _for_shell(name, name, value.arg)
    elif _mixed(value):
        for item in value:
            yield from _flag(name, item if isinstance(item, xm.ShellSafeArg) else [item])
    else:
        yield Argument(name=name, value=_value(name, value))


def _for_shell(name: str | None, what: str, text: str) -> Argument:
    return Argument(name=name, value=_text(what, text), shell=True)  # noqa: S604  no call of one


def _mixed(value: Any) -> bool:
    """Whether a flat list holds something that a shell reads."""
    return (
        isinstance(value, list | tuple)
        and any(isinstance(item, xm.ShellSafeArg) for item in value)
        and not any(isinstance(item, list | tuple) for item in value)
    )


def _value(name: str, value: Any) -> JsonValue:
    if isinstance(value, list | tuple):
        if any(isinstance(item, list | tuple) for item in value):
            return _text(name, value)
        return [_scalar(name, item) for item in value]
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> JsonValue:
    return value if _is_scalar(value) and not isinstance(value, str) else _text(name, value)


def _is_scalar(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return value in INTEGERS
    return value is None or type(value) in (bool, str)


def _text(name: str, value: object) -> str:
    return _checked(f"argument {name}", value.name if isinstance(value, Enum) else str(value))


def _checked(what: str, text: str) -> str:
    if "\0" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise InvalidInput(what, text, "valid Unicode without NUL characters")
    return text
