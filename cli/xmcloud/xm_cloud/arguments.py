"""From the arguments of a launch script to the typed arguments of a job."""

import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic import JsonValue

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.models import Argument
from xmcloud.xm_cloud.unsupported import Unsupported

INTEGERS = range(-(2**63), 2**63)
"""What every store keeps as an integer; a larger one travels as text."""


def to_protocol(arguments: xm.SequentialArgs) -> tuple[Argument, ...]:
    """Arguments whose argv is that of `arguments`, with their JSON types kept.

    Raises `Unsupported` for a `ShellSafeArg` and `InvalidInput` for text that no process can
    receive.
    """
    if arguments.needs_shell:
        raise Unsupported(
            "An xm.ShellSafeArg needs a shell, and this executor starts processes without one.",
            "Pass the value as plain text, or use it in a command of xm.CommandList.",
        )
    return tuple(_arguments(arguments))


def _arguments(arguments: xm.SequentialArgs) -> Iterator[Argument]:
    for key, value in arguments.items():
        if isinstance(key, str):
            yield Argument(name=_checked("the name of an argument", key), value=_value(key, value))
        else:
            yield Argument(value="None" if value is None else _scalar(str(key + 1), value))


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
