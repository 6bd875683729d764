"""What a value is on a command line. Standard library alone: scripts import it too."""

from typing import Any


def words(name: str | None, value: Any) -> list[str]:
    """Of a flag when there is a name, else of a positional argument.

    A flag becomes `--name=value`; True `--name`, False `--noname`; None is left out; a list
    repeats the flag. A nested list or an object is one word, as Python prints it.
    """
    if value is None:
        return []
    if name is None:
        return [str(value)]
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no{name}"]
    if isinstance(value, list):
        return [f"--{name}={item}" for item in value]
    return [f"--{name}={value}"]
